/* The example's directory as one whose calls hang as long as there is a file hang. */
#define directory_perform performs
#include "../../example/directory.c"
#undef directory_perform

void directory_perform(struct directory *d, const struct request *q, struct reply *a)
{
	while (access("hang", F_OK) == 0)
		usleep(1000);
	performs(d, q, a);
}
