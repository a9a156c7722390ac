// Making a command: a guardian that orphans of the command fall to, below it the command with clean signals,
// a session of its own and its limits. The guardian reports its end over the status pipe.
#define _GNU_SOURCE
#include "helper.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATH_DEFAULT "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

static pid_t parent_pid;

static void fail(int fd, uint8_t stage, int error) {
  struct record r = {'X', stage, error, 0, 0};
  if (write(fd, &r, sizeof r) < 0) _exit(126);
  _exit(127);
}

static void close_from(int first) {
#ifdef SYS_close_range
  if (syscall(SYS_close_range, first, ~0U, 0) == 0) return;
#endif
  for (int fd = first, missing = 0; missing < 4096; fd++) missing = close(fd) < 0 ? missing + 1 : 0;
}

static int high(int fd) { return fcntl(fd, F_DUPFD_CLOEXEC, 64); }

// 0, 1, 2 the streams, 3 the status; nothing else of the helper stays open below it.
static void keep_only(int in, int out, int err, int status) {
  int from[4] = {high(in), high(out), high(err), high(status)};
  for (int i = 0; i < 4; i++) dup2(from[i], i);
  close_from(4);
  fcntl(STATUS_FD, F_SETFD, FD_CLOEXEC);
}

static void clean_signals(void) {
  struct sigaction plain = {.sa_handler = SIG_DFL};
  for (int s = 1; s < 65; s++) sigaction(s, &plain, NULL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
}

static int set_limits(struct command *c) {
  struct rlimit zero = {0, 0};
  setrlimit(RLIMIT_CORE, &zero);
  for (int i = 0; i < c->limit_count; i++) {
    struct rlimit had, want = {c->limits[i].value, c->limits[i].value};
    if (getrlimit(c->limits[i].what, &had) == 0 && had.rlim_max < want.rlim_max) want.rlim_max = want.rlim_cur = had.rlim_max;
    if (c->limits[i].what == RLIMIT_CPU && want.rlim_max != RLIM_INFINITY && want.rlim_cur + 1 <= had.rlim_max)
      want.rlim_max = want.rlim_cur + 1;  // first SIGXCPU, which tells why, then SIGKILL
    if (setrlimit(c->limits[i].what, &want) < 0) return -1;
  }
  return 0;
}

static void make_easy_to_kill(void) {  // rather the command than the helper, when memory is short
  int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  if (write(fd, "500", 3) < 0) { /* an old kernel, or not ours to set */ }
  close(fd);
}

static void become_command(struct command *c, int report_fd) {
  report_status('P', 0, getpid(), 0, 0);  // before it can do its guardian any harm
  setsid();
  if (c->options & TTY && ioctl(0, TIOCSCTTY, 0) < 0) fail(report_fd, AT_TTY, errno);
  if (c->cwd && chdir(c->cwd) < 0) fail(report_fd, AT_CWD, errno);
  make_easy_to_kill();
  if (set_limits(c) < 0) fail(report_fd, AT_LIMIT, errno);
  clean_signals();
  extern char **environ;
  environ = c->env;
  if (!getenv("PATH")) setenv("PATH", PATH_DEFAULT, 1);
  protect_first();
  execvp(c->argv[0], c->argv);
  fail(report_fd, AT_EXEC, errno);
}

static void end_with_parent(int signal) {
  (void)signal;
  if (getppid() == parent_pid) return;  // a process of the sandbox sent it
  for (int i = 0; i < 100 && signal_tree(getpid(), SIGKILL, NULL, 0) > 0; i++) {
    while (waitpid(-1, NULL, WNOHANG) > 0) {}
    usleep(5000);
  }
  _exit(0);
}

static void watch_parent(void) {
  struct sigaction act = {.sa_handler = end_with_parent, .sa_flags = SA_RESTART};
  sigaction(SIGTERM, &act, NULL);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  sigset_t all;
  sigfillset(&all);
  sigdelset(&all, SIGTERM);
  sigprocmask(SIG_SETMASK, &all, NULL);
  if (getppid() != parent_pid) end_with_parent(SIGTERM);
}

static void wait_for_all(pid_t child) {
  for (;;) {
    int status;
    struct rusage use;
    pid_t pid = waitpid(-1, &status, 0);
    if (pid < 0 && errno == EINTR) continue;
    if (pid < 0) _exit(0);
    if (pid != child) continue;
    getrusage(RUSAGE_CHILDREN, &use);
    double cpu = (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) + (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6;
    report_status('S', 0, status, cpu, (uint64_t)use.ru_maxrss << 10);
  }
}

static void become_guardian(struct command *c) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  prctl(PR_SET_NAME, "gym-guardian");
  int report_pipe[2];
  if (pipe2(report_pipe, O_CLOEXEC) < 0) fail(STATUS_FD, AT_FORK, errno);
  pid_t child = fork();
  if (child < 0) fail(STATUS_FD, AT_FORK, errno);
  if (child == 0) become_command(c, report_pipe[1]);
  watch_parent();
  for (int fd = 0; fd < 3; fd++) close(fd);
  close(report_pipe[1]);
  struct record r;
  ssize_t n;
  do n = read(report_pipe[0], &r, sizeof r);
  while (n < 0 && errno == EINTR);
  close(report_pipe[0]);
  if (n == sizeof r) report_status('X', r.stage, r.value, 0, 0);
  else report_status('E', 0, 0, 0, 0);
  wait_for_all(child);
}

static int open_tty(struct command *c, int *ours, int *theirs) {
  int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC), unlock = 0, number;
  if (master < 0) return -1;
  char name[32] = "/dev/pts/";
  if (ioctl(master, TIOCSPTLCK, &unlock) < 0 || ioctl(master, TIOCGPTN, &number) < 0) goto failed;
  char digits[12];
  int i = 0, at = 9;
  do digits[i++] = (char)('0' + number % 10);
  while (number /= 10);
  while (i) name[at++] = digits[--i];
  *theirs = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (*theirs < 0) goto failed;
  struct winsize size = {.ws_row = c->rows, .ws_col = c->columns};
  ioctl(master, TIOCSWINSZ, &size);
  *ours = master;
  return 0;
failed:
  close(master);
  return -1;
}

static void close_all(int *fds, int n) {
  int kept = errno;
  for (int i = 0; i < n; i++)
    if (fds[i] >= 0) close(fds[i]);
  errno = kept;
}

// fds: pairs (ours, theirs) of stdin, stdout, stderr, status.
static int open_pipes(struct command *c, int fds[8], int *stage) {
  for (int i = 0; i < 8; i++) fds[i] = -1;
  int made[2];
  *stage = AT_FORK;
  if (pipe2(made, O_CLOEXEC) < 0) return -1;
  fds[6] = made[0], fds[7] = made[1];
  if (c->options & TTY) {
    *stage = AT_TTY;
    if (open_tty(c, &fds[0], &fds[1]) < 0) return -1;
    return (fds[2] = high(fds[0])) < 0 ? -1 : 0;
  }
  if (pipe2(made, O_CLOEXEC) < 0) return -1;
  fds[0] = made[1], fds[1] = made[0];
  for (int i = 2; i < 6; i += 2) {
    if (pipe2(made, O_CLOEXEC) < 0) return -1;
    fds[i] = made[0], fds[i + 1] = made[1];
  }
  return 0;
}

int spawn(struct command *c, struct spawned *s, int *stage) {
  int fds[8];
  if (open_pipes(c, fds, stage) < 0) {
    close_all(fds, 8);
    return -1;
  }
  parent_pid = getpid();
  *stage = AT_FORK;
  pid_t pid = fork();
  if (pid < 0) {
    close_all(fds, 8);
    return -1;
  }
  if (pid == 0) {
    int tty = c->options & TTY;
    keep_only(fds[1], tty ? fds[1] : fds[3], tty ? fds[1] : fds[5], fds[7]);
    if (c->options & BUILTIN) _exit(run_file_operation(c));
    become_guardian(c);
  }
  int theirs[4] = {fds[1], fds[3], fds[5], fds[7]};
  close_all(theirs, 4);
  int ours[4] = {fds[0], fds[2], fds[4], fds[6]};
  for (int i = 0; i < 4; i++)
    if (ours[i] >= 0) fcntl(ours[i], F_SETFL, O_NONBLOCK | (i == 0 && c->options & TTY ? O_RDWR : 0));
  *s = (struct spawned){.in = ours[0], .out = ours[1], .err = ours[2], .status = ours[3], .guardian = pid};
  return 0;
}
