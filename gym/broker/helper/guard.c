// What no command may do to the sandbox's first process: take its limits, its turns on a core, or a handle on it. The
// kernel keeps signals from process 1, but not these calls. By numbers alone: a filter sees no memory.
#define _GNU_SOURCE
#include "helper.h"
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <errno.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FIRST 1           // the process that is guarded
#define WHOLE_USER 2      // PRIO_USER: everything of one user, and so the first process too
#define IO_WHOLE_USER 3   // IOPRIO_WHO_USER
#define X32 0x40000000u
#define REFUSED (SECCOMP_RET_ERRNO | EPERM)
#define NR offsetof(struct seccomp_data, nr)
#define ARG(n) (offsetof(struct seccomp_data, args) + 8 * (n))

struct numbers {          // of one kind of machine
  uint32_t machine, prlimit, scheduler, parameters, attributes, affinity, priority, io_priority, handle;
};

#if defined(__x86_64__)
static const struct numbers machines[] = {
  {AUDIT_ARCH_X86_64, 302, 144, 142, 314, 203, 141, 251, 434},
  {AUDIT_ARCH_I386, 340, 156, 154, 351, 241, 97, 289, 434},
};
#elif defined(__aarch64__)
static const struct numbers machines[] = {
  {AUDIT_ARCH_AARCH64, 261, 119, 118, 274, 122, 140, 30, 434},
  {AUDIT_ARCH_ARM, 369, 156, 154, 380, 241, 97, 314, 434},
};
#else
#error "the numbers of this machine's calls are not written down"
#endif

int guard_first;
static struct sock_filter code[160];
static unsigned short count;

static void add(uint16_t what, uint32_t k, uint8_t yes, uint8_t no) {
  code[count++] = (struct sock_filter)BPF_JUMP(what, k, yes, no);
}

static void load_call(void) {
  add(BPF_LD | BPF_W | BPF_ABS, (uint32_t)NR, 0, 0);
  add(BPF_ALU | BPF_AND | BPF_K, ~X32, 0, 0);
}

static void refuse_where(uint32_t call, int argument, uint32_t value) {
  add(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 5);
  add(BPF_LD | BPF_W | BPF_ABS, (uint32_t)ARG(argument), 0, 0);
  add(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1);
  add(BPF_RET | BPF_K, REFUSED, 0, 0);
  load_call();
}

static void add_machine(const struct numbers *n) {
  add(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, arch), 0, 0);
  add(BPF_JMP | BPF_JEQ | BPF_K, n->machine, 1, 0);
  unsigned short past = count;
  add(BPF_JMP | BPF_JA, 0, 0, 0);
  load_call();
  const uint32_t first_is_pid[] = {n->prlimit, n->scheduler, n->parameters, n->attributes, n->affinity, n->handle};
  for (size_t i = 0; i < sizeof first_is_pid / sizeof *first_is_pid; i++) refuse_where(first_is_pid[i], 0, FIRST);
  refuse_where(n->priority, 1, FIRST);
  refuse_where(n->priority, 0, WHOLE_USER);
  refuse_where(n->io_priority, 1, FIRST);
  refuse_where(n->io_priority, 0, IO_WHOLE_USER);
  add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
  code[past].k = count - past - 1u;
}

// A kernel without filters lets the command run all the same: its sandbox is then only lost by its own doing.
void protect_first(void) {
  if (!guard_first) return;
  for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) add_machine(machines + i);
  add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
  struct sock_fprog program = {.len = count, .filter = code};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &program) < 0)
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}
