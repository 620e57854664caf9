/* signals: which handlers there are after the load, by number. */
#define _GNU_SOURCE
#include <signal.h>

#include "check.h"

int main(void)
{
	CHECK(mopslock_abi_version() > 0);
	for (int s = 1; s < 65; s++) {
		struct sigaction now;
		if (sigaction(s, NULL, &now) == 0 && now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN) {
			CHECK((now.sa_flags & SA_ONSTACK) != 0);
			printf("%s\n", strsignal(s));
		}
	}
	return 0;
}
