// The helper: PID 1 of a sandbox, or the first process of a plain one. It speaks frames on stdin and stdout, starts
// commands, holds their output within bounds, ends what has run too long, and ends everything when its client is silent.
#define _GNU_SOURCE
#include "helper.h"
#include "loop.h"
#include "relay.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SOURCES
#define SOURCES "unknown"
#endif

static const struct command *by_id(uint32_t id, struct command **found) {
  for (struct command *c = H.commands; c; c = c->next)
    if (c->id == id && !c->mute) return *found = c;
  return *found = NULL;
}

static void reset_session(const uint8_t *nonce, int keep) {
  H.out.len = H.out.off = 0;  // the rest of a frame for an earlier client
  struct buf reply = {0};
  uint32_t ids[3] = {(uint32_t)getpid(), (uint32_t)getuid(), (uint32_t)getgid()}, count = 0;
  uint16_t version = PROTOCOL;
  for (struct command *c = H.commands; c; c = c->next) {
    if (keep && c->state == LEFT && !(c->options & KEEP)) c->mute = 1;  // what it left behind goes on
    else if (!keep || !(c->options & KEEP)) end_command(c);
    else if (!c->mute) count++;
  }
  buf_add(&reply, nonce, 16);
  buf_add(&reply, &version, 2);
  buf_add(&reply, ids, sizeof ids);
  buf_add(&reply, &count, 4);
  for (struct command *c = H.commands; c; c = c->next) {
    if (c->mute) continue;
    uint32_t n = c->name ? (uint32_t)strlen(c->name) : 0;
    buf_add(&reply, &c->id, 4);
    buf_add(&reply, &n, 4);
    buf_add(&reply, c->name, n);
  }
  send_frame(HELLO_BACK, 0, reply.p, (uint32_t)reply.len);
  buf_free(&reply);
  for (struct command *c = H.commands; c; c = c->next)
    if (!c->mute) resend_command(c);
}

static struct command *add_command(uint32_t id) {
  struct command *c = calloc(1, sizeof *c);
  if (!c) _exit(70);
  c->id = id;
  c->in = c->status = c->out[0].fd = c->out[1].fd = -1;
  c->next = H.commands;
  return H.commands = c;
}

static void handle(uint8_t type, uint32_t id, const uint8_t *data, uint32_t n) {
  struct command *c;
  uint32_t number = 0;
  by_id(id, &c);
  if (n >= 4) memcpy(&number, data, 4);
  if (type == HELLO && n == 17) reset_session(data, data[16]);
  else if (type == PING) send_frame(PONG, id, data, n);
  else if (type == SPEC && n && (!c || c->state == COLLECTING)) {
    if (!c) c = add_command(id);
    if (c->spec.len < SPEC_MAX) buf_add(&c->spec, data, n);
  } else if (type == GO && c && c->state == COLLECTING) start_command(c);
  else if (!c || c->state == COLLECTING) return;
  else if (type == INPUT) add_input(c, data, n);
  else if (type == INPUT_END) c->input_ended = 1;
  else if (type == KILL && n == 4) kill_command(c, (int)number);
  else if (type == RESIZE && n == 4) resize_command(c, data);
  else if (type == CREDIT && n == 5 && data[4] < 2) c->out[data[4]].credit += number;
  else if (type == PEEK) send_tails(c);
  else if (type == FORGET) forget_command(c);
}

static void take_frames(void) {
  struct buf *in = &H.in;
  for (;;) {
    while (in->len > in->off && in->p[in->off] == PAD) buf_take(in, 1);
    size_t have = in->len - in->off;
    if (have < FRAME_HEAD) return;
    uint8_t *frame = in->p + in->off;
    uint32_t id, n;
    memcpy(&id, frame + 1, 4);
    memcpy(&n, frame + 5, 4);
    if (n > FRAME_MAX) {  // out of step: look on for a frame
      buf_take(in, 1);
      continue;
    }
    if (have < FRAME_HEAD + (size_t)n + 1) return;
    if (frame[FRAME_HEAD + n] == FRAME_END) handle(frame[0], id, frame + FRAME_HEAD, n);
    buf_take(in, FRAME_HEAD + (size_t)n + 1);
  }
}

static void read_client(void) {
  for (int i = 0; i < 16; i++) {
    buf_room(&H.in, 65536);
    ssize_t n = read(H.from, H.in.p + H.in.len, 65536);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) {
      if (!H.eof_since) H.eof_since = now();
      return;
    }
    H.eof_since = 0;
    H.in.len += (size_t)n;
    H.heard = now();
    take_frames();
    if (n < 65536) return;
  }
}

static void write_client(void) {
  while (H.out.len > H.out.off) {
    ssize_t n = write(H.to, H.out.p + H.out.off, H.out.len - H.out.off);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno != EAGAIN) buf_take(&H.out, H.out.len - H.out.off);  // no reader; silence ends us
    if (n <= 0) return;
    buf_take(&H.out, (size_t)n);
  }
}

static void reap(void) {
  struct signalfd_siginfo info[8];
  while (read(H.signals, info, sizeof info) > 0) {}
  int status;
  struct rusage use;
  for (pid_t pid; (pid = wait4(-1, &status, WNOHANG, &use)) > 0;) reaped(pid, status, &use);
}

static void end_everything(void) {
  for (int i = 0; i < 400; i++) {
    if (getpid() == 1) kill(-1, SIGKILL);
    int alive = signal_tree(getpid(), SIGKILL, NULL, 0);
    while (waitpid(-1, NULL, WNOHANG) > 0) {}
    if (alive <= 0) break;
    poll(NULL, 0, 5);
  }
  exit(0);
}

// A long gap between two rounds is a sandbox that was frozen: no clock of ours ran in it.
static void allow_for_freeze(double *last, int waited_ms) {
  double at = now(), gap = at - *last - (double)waited_ms / 1e3;
  *last = at;
  if (gap < 2) return;
  H.heard += gap;
  if (H.eof_since) H.eof_since += gap;
  for (struct command *c = H.commands; c; c = c->next) {
    if (c->deadline) c->deadline += gap;
    c->began += gap;
  }
}

static int is_over(void) {
  if (H.eof_since && now() - H.eof_since >= H.linger) return 1;
  if (!H.silence || now() - H.heard < H.silence) return 0;
  struct pollfd p = {.fd = H.from, .events = POLLIN};
  return poll(&p, 1, 0) <= 0 || !(p.revents & POLLIN);
}

static void loop(void) {
  static struct pollfd fds[3 + 4 * 1024];
  double last = now();
  while (!is_over()) {
    int n = 3, wait_ms = 1000;
    fds[0] = (struct pollfd){.fd = H.eof_since ? -1 : H.from, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = H.out.len > H.out.off ? H.to : -1, .events = POLLOUT};
    fds[2] = (struct pollfd){.fd = H.signals, .events = POLLIN};
    n += watch_commands(fds + 3, (int)(sizeof fds / sizeof *fds) - 3, &wait_ms);
    if (H.eof_since && wait_ms > 200) wait_ms = 200;
    poll(fds, (nfds_t)n, wait_ms);
    allow_for_freeze(&last, wait_ms);
    if (fds[0].revents || H.eof_since) read_client();
    if (fds[2].revents) reap();
    serve_commands(fds + 3, n - 3);
    write_client();
  }
  end_everything();
}

static int move_high(int fd, int flags) {
  int moved = fcntl(fd, F_DUPFD_CLOEXEC, 32);
  if (moved < 0) exit(71);
  fcntl(moved, F_SETFL, fcntl(moved, F_GETFL) | flags);
  return moved;
}

static void set_up(void) {
  H.from = move_high(0, O_NONBLOCK);
  H.to = move_high(1, O_NONBLOCK);
  fcntl(H.to, F_SETPIPE_SZ, 1 << 18);
  fcntl(H.from, F_SETPIPE_SZ, 1 << 18);
  int null = open("/dev/null", O_RDWR);
  for (int fd = 0; fd < 3; fd++)
    if (null < 0 || dup2(null, fd) < 0) close(fd);
  if (null > 2) close(null);
  for (int fd = 3; fd < 32; fd++) close(fd);  // whatever else was left open to us
  sigset_t all, child;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, NULL);
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  H.signals = signalfd(-1, &child, SFD_NONBLOCK | SFD_CLOEXEC);
  if (H.ooms < 0) H.ooms = open_ooms();
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  prctl(PR_SET_NAME, "gym-init");
  H.heard = now();
}

// --launch [--join FILE] [--limit NUMBER VALUE] -- COMMAND: enters control groups and limits, then becomes the command.
static int launch(int argc, char **argv) {
  for (int i = 2; i < argc; i++) {
    if (!strcmp(argv[i], "--") && i + 1 < argc) {
      execvp(argv[i + 1], argv + i + 1);
      fprintf(stderr, "gym-helper: %s: %s\n", argv[i + 1], strerror(errno));
      return 127;
    }
    if (!strcmp(argv[i], "--join") && i + 1 < argc) {
      int fd = open(argv[++i], O_WRONLY | O_CLOEXEC);
      if (fd >= 0 && write(fd, "0", 1) == 1 && close(fd) == 0) continue;
      fprintf(stderr, "gym-helper: cannot join %s: %s\n", argv[i], strerror(errno));
      return 71;
    }
    if (strcmp(argv[i], "--limit") || i + 2 >= argc) break;
    struct rlimit limit = {strtoull(argv[i + 2], NULL, 10), strtoull(argv[i + 2], NULL, 10)};
    setrlimit(atoi(argv[i + 1]), &limit);
    i += 2;
  }
  fprintf(stderr, "gym-helper: --launch takes --join FILE, --limit NUMBER VALUE, then -- and a command\n");
  return 64;
}

static int take_fd(int fd) {
  int moved = fcntl(fd, F_DUPFD_CLOEXEC, 32);
  close(fd);
  return moved;
}

int main(int argc, char **argv) {
  if (argc > 1 && !strcmp(argv[1], "--launch")) return launch(argc, argv);
  prctl(PR_SET_DUMPABLE, 0);  // first: from here on no process of the same uid may trace it or open its pipes
  if (argc > 1 && !strcmp(argv[1], "--relay")) return relay(argc, argv);
  H.ooms = -1;
  for (int i = 1; i < argc; i++) {
    int last = i + 1 == argc;
    if (!strcmp(argv[i], "--version")) {
      printf("gym-helper %d %s\n", PROTOCOL, SOURCES);
      return 0;
    }
    if (!strcmp(argv[i], "--guard")) guard_first = 1;
    else if (!last && !strcmp(argv[i], "--silence")) H.silence = atof(argv[++i]);
    else if (!last && !strcmp(argv[i], "--linger")) H.linger = atof(argv[++i]);
    else if (!last && !strcmp(argv[i], "--oom-fd")) H.ooms = take_fd(atoi(argv[++i]));
    else {
      fprintf(stderr, "gym-helper: unknown option %s; it takes --version, --guard, --silence S, --linger S, --oom-fd N\n", argv[i]);
      return 64;
    }
  }
  set_up();
  loop();
}
