/* chanctl: manages chand from the command line. */
#include "cli/run.h"

int main(int argc, char *argv[])
{
    return chanctl_run(argc, (const char *const *)argv, stdout);
}
