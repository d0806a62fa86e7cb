/* The fake as a program, to be started as chan-dataplane is. It refuses to run with descriptors that it was
 * not to inherit, in a session that is not its own, or with other arguments. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "tests/unit/links_client/fake.h"

int main(int argc, char **argv)
{
    sigset_t blocked;
    if (argc != 5 || strcmp(argv[1], "--cpus") != 0 || strcmp(argv[3], "--control") != 0)
        return 2;
    for (int fd = 3; fd < 1024; fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            return 3;
    if (getsid(0) != getpid())
        return 4;
    if (sigprocmask(SIG_BLOCK, NULL, &blocked) != 0 || sigismember(&blocked, SIGTERM) != 0)
        return 5;
    if (strcmp(argv[2], "dies") == 0) {
        (void)fprintf(stderr, "told to die\n");
        return 6;
    }
    (void)alarm(120); /* never outlives a test that fails for long */
    (void)fake_start(argv[4]);
    for (;;)
        (void)pause();
}
