// The header is good C++ as well.
#include <mopslock.h>

int main() { return mopslock_abi_version() == MOPSLOCK_ABI_VERSION ? MOPSLOCK_OK : 1; }
