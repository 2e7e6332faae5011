/* Claims FAKE_CORES cores, to whoever asks in one of the usual ways. Loaded by LD_PRELOAD. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int cores(void) { return atoi(getenv("FAKE_CORES")); }

long sysconf(int name) {
    if (name == _SC_NPROCESSORS_ONLN || name == _SC_NPROCESSORS_CONF) return cores();
    return ((long (*)(int))dlsym(RTLD_NEXT, "sysconf"))(name);
}

int get_nprocs(void) { return cores(); }

int get_nprocs_conf(void) { return cores(); }

int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set) {
    (void)pid;
    if (8 * size < (size_t)cores()) {
        errno = EINVAL; /* as the kernel does: ask again with more room */
        return -1;
    }
    memset(set, 0, size);
    for (int core = 0; core < cores(); core++) CPU_SET_S(core, size, set);
    return 0;
}
