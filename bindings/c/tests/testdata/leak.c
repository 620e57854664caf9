/* leak: what the leak detectors must find, with the library loaded. */
#include "check.h"

int main(void)
{
	char *volatile lost = malloc(100);
	lost = NULL;
	return lost == NULL && mopslock_drop(1) == MOPSLOCK_EHANDLE ? 0 : 1;
}
