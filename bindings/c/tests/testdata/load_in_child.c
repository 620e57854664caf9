/* load_in_child LIBRARY: a process that forks first may load the library in the child. */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int status = -1;
	if (argc != 2)
		return 2;
	if (fork() == 0) {
		alarm(5);
		void *library = dlopen(argv[1], RTLD_NOW);
		if (library == NULL)
			return fprintf(stderr, "%s\n", dlerror()), 1;
		int (*drop)(uint64_t);
		*(void **)&drop = dlsym(library, "mopslock_drop");
		return drop(1) == -2 ? 0 : 1; /* EHANDLE: Go was asked */
	}
	return wait(&status) > 0 && status == 0 ? 0 : 1;
}
