// The life of a command: collecting, running, killing, draining, tailing, left. See helper.h for its shape.
#define _GNU_SOURCE
#include "loop.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define GIVE_UP 5.0       // a process that SIGKILL does not end in this time hangs in the kernel
#define TTY_QUIET 0.05    // a terminal hands over the last words a moment after the end
#define DISCARD_EVERY 0.02
#define ABANDON 256
#define LEFT_MAX 200      // older leftovers lose their pipes, so that there are always some for new commands

static void send_of(struct command *c, uint8_t type, const void *data, uint32_t n) {
  if (!c->mute) send_frame(type, c->id, data, n);
}

static void close_fd(int *fd) {
  if (*fd >= 0) close(*fd);
  *fd = -1;
}

static void fail_command(struct command *c, int stage, int error) {
  uint8_t data[5] = {(uint8_t)stage};
  memcpy(data + 1, &error, 4);
  send_of(c, FAILED, data, 5);
  c->failed = c->forgotten = 1;
  c->state = LEFT;
}

void start_command(struct command *c) {
  struct spawned s;
  int stage = AT_SPEC;
  if (read_spec(c) < 0 || spawn(c, &s, &stage) < 0) {
    fail_command(c, stage, errno);
    return;
  }
  c->in = s.in;
  c->status = s.status;
  c->guardian = s.guardian;
  c->began = now();
  c->deadline = c->timeout_ms ? c->began + (double)c->timeout_ms / 1e3 : 0;
  c->ooms = count_ooms(H.ooms);
  c->slot = -1;
  c->state = RUNNING;
  int fds[2] = {s.out, s.err};
  for (int i = 0; i < 2; i++) {
    struct output *o = &c->out[i];
    o->fd = fds[i];
    o->head_left = (c->max_output + 1) / 2;
    o->ring_max = c->max_output / 2;
    o->credit = WINDOW;
    o->drain = -1;
  }
}

void add_input(struct command *c, const uint8_t *data, uint32_t n) {
  if (c->in >= 0) buf_add(&c->input, data, n);
  else send_of(c, CONSUMED, &n, 4);  // it has no reader any more; the sender need not wait
}

static void write_input(struct command *c) {
  while (c->in >= 0 && c->input.len > c->input.off) {
    ssize_t n = write(c->in, c->input.p + c->input.off, c->input.len - c->input.off);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n < 0) {
      n = (ssize_t)(c->input.len - c->input.off);
      close_fd(&c->in);
    }
    uint32_t taken = (uint32_t)n;
    buf_take(&c->input, taken);
    send_of(c, CONSUMED, &taken, 4);
  }
  if (c->in < 0 || !c->input_ended) return;
  if (c->options & TTY) {
    if (write(c->in, "\004", 1) < 0) { /* the other end is gone: that ends it as well */ }
    c->input_ended = 0;
  } else close_fd(&c->in);
}

void resize_command(struct command *c, const uint8_t *size) {
  struct winsize w = {0};
  memcpy(&w.ws_row, size, 2);
  memcpy(&w.ws_col, size + 2, 2);
  if (c->in >= 0) ioctl(c->in, TIOCSWINSZ, &w);
}

static void set_end(struct command *c, int status, double cpu, uint64_t rss) {
  if (c->ended_known) return;
  c->ended_known = 1;
  c->ended = now();
  c->child = 0;
  c->code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  c->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  c->cpu = cpu;
  c->max_rss = rss;
}

static void send_started(struct command *c) {
  if (c->started || c->failed) return;
  c->started = 1;
  send_of(c, STARTED, &c->child, 4);
}

static void read_status(struct command *c) {
  struct record r;
  for (ssize_t n; c->status >= 0;) {
    n = read(c->status, &r, sizeof r);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n != sizeof r) {
      close_fd(&c->status);
      return;
    }
    if (r.kind == 'P') c->child = r.value;
    if (r.kind == 'S') set_end(c, r.value, r.cpu, r.max_rss);
    if (r.kind == 'E') send_started(c);
    if (r.kind == 'X' && !c->failed) fail_command(c, r.stage, r.value);
  }
}

void reaped(pid_t pid, int status, const struct rusage *use) {
  double cpu = (double)(use->ru_utime.tv_sec + use->ru_stime.tv_sec) + (double)(use->ru_utime.tv_usec + use->ru_stime.tv_usec) / 1e6;
  for (struct command *c = H.commands; c; c = c->next) {
    if (c->child == pid) set_end(c, status, cpu, (uint64_t)use->ru_maxrss << 10);  // its guardian was killed before it
    if (c->guardian != pid) continue;
    c->guardian = 0;
    read_status(c);
    if (c->options & BUILTIN) set_end(c, status, cpu, (uint64_t)use->ru_maxrss << 10);
    else if (c->child && kill(c->child, 0) == 0) send_started(c);
    else if (!c->ended_known) {
      set_end(c, SIGKILL, 0, 0);
      c->lost = 1;
    }
  }
}

static size_t spare_others(const struct command *but, pid_t *spare, size_t max) {
  size_t n = 0;
  for (struct command *c = H.commands; c && n + 2 < max; c = c->next) {
    if (c == but) continue;
    if (c->guardian) spare[n++] = c->guardian;
    if (c->child) spare[n++] = c->child;
  }
  return n;
}

static void signal_command(struct command *c, int signal) {
  static pid_t spare[4096];
  if (c->options & BUILTIN) {
    if (c->guardian) kill(c->guardian, c->passes++ < 20 ? SIGTERM : SIGKILL);
  } else if (c->guardian) {
    int alive = signal_tree(c->guardian, signal, NULL, 0);
    if (alive < 0 && c->child) kill(-c->child, signal);
    if (signal == SIGKILL && alive == 0) kill(c->guardian, ++c->passes < 20 ? SIGCONT : SIGKILL);
  } else signal_tree(getpid(), signal, spare, spare_others(c, spare, 4096));  // its orphans fell to us
}

static void begin_kill(struct command *c) {
  c->state = KILLING;
  c->passes = 0;
  c->give_up = now() + GIVE_UP;
  c->next_pass = 0;
}

void kill_command(struct command *c, int signal) {
  if (signal == ABANDON) end_command(c);
  else if (signal != SIGKILL && !(c->options & BUILTIN)) signal_command(c, signal);
  else if (c->state == RUNNING) begin_kill(c);
  else if (c->state == LEFT) c->kill_left = 1;
}

void end_command(struct command *c) {
  c->mute = c->forgotten = 1;
  if (c->state == COLLECTING) c->state = OVER;
  else if (c->state == RUNNING) begin_kill(c);
  else if (c->state != KILLING) {
    c->state = LEFT;
    c->kill_left = 1;
  }
}

void forget_command(struct command *c) { c->forgotten = 1; }

void resend_command(struct command *c) {
  if (c->started) send_of(c, STARTED, &c->child, 4);
  send_heads(c);
  if (c->state != TAILING && c->state != LEFT) return;
  c->out[0].sent = c->out[1].sent = 0;
  c->state = TAILING;
}

static void send_result(struct command *c) {
  uint8_t data[57] = {0};
  int32_t code = c->code, signal = c->signal;
  double seconds = c->ended - c->began;
  memcpy(data, &code, 4);
  memcpy(data + 4, &signal, 4);
  data[8] = (uint8_t)(c->timed_out | (count_ooms(H.ooms) > c->ooms) << 1 | c->lost << 2);
  memcpy(data + 9, &seconds, 8);
  memcpy(data + 17, &c->cpu, 8);
  memcpy(data + 25, &c->max_rss, 8);
  send_of(c, RESULT, data, 33);
}

static void begin_drain(struct command *c) {
  if (!c->ended_known) {
    set_end(c, SIGKILL, 0, 0);
    c->lost = 1;
  }
  close_fd(&c->in);
  c->state = DRAINING;
  c->give_up = now() + TTY_QUIET;
  for (int i = 0; i < 2; i++) begin_drain_of(&c->out[i], c->options & TTY);
}

static int is_drained(const struct command *c) {
  for (int i = 0; i < 2; i++) {
    const struct output *o = &c->out[i];
    if (c->options & TTY ? o->fd >= 0 && i == 0 && now() < c->give_up : o->fd >= 0 && o->drain > 0) return 0;
  }
  return 1;
}

static void advance_running(struct command *c) {
  if (c->ended_known && !(c->options & KILL_LEFTOVERS)) begin_drain(c);
  else if (c->ended_known) begin_kill(c);
  else if (c->deadline && now() >= c->deadline) {
    c->timed_out = 1;
    begin_kill(c);
  }
}

static void advance_killing(struct command *c) {
  double at = now();
  if (!c->guardian && !c->child) {
    begin_drain(c);
  } else if (at >= c->give_up) {
    if (c->guardian) kill(c->guardian, SIGKILL);
    begin_drain(c);
  } else if (at >= c->next_pass) {
    signal_command(c, SIGKILL);
    c->next_pass = now() + 0.003 * (c->passes < 10 ? 1 : 10);
  }
}

static void advance_left(struct command *c) {
  int gone = !c->guardian && !c->child;
  if (gone || c->kill_left)
    for (int i = 0; i < 2; i++) close_fd(&c->out[i].fd);
  if (gone) {
    close_fd(&c->in);
    close_fd(&c->status);
    if (c->forgotten || !(c->options & KEEP)) c->state = OVER;
  } else if (c->kill_left && now() >= c->next_pass) {
    signal_command(c, SIGKILL);
    c->next_pass = now() + 0.02;
  }
}

static void advance(struct command *c) {
  enum state before;
  do {
    before = c->state;
    if (c->state == RUNNING) advance_running(c);
    else if (c->state == KILLING) advance_killing(c);
    else if (c->state == DRAINING && (c->mute || is_drained(c))) c->state = TAILING;
    else if (c->state == TAILING && (c->mute || (send_tail(c, 0, 0) && send_tail(c, 1, 0)))) {
      send_result(c);
      c->state = LEFT;
    } else if (c->state == LEFT) advance_left(c);
  } while (c->state != before);
}

static void wake_by(int *wait_ms, double when) {
  double left = (when - now()) * 1e3;
  int ms = left <= 0 ? 0 : (int)left + 1;
  if (ms < *wait_ms) *wait_ms = ms;
}

static void watch_outputs(struct command *c, struct pollfd *fds, int *wait_ms) {
  int later = c->state == LEFT && !c->kill_left && now() < c->next_pass;
  for (int i = 0; i < 2; i++) {
    if (later && c->out[i].fd >= 0) wake_by(wait_ms, c->next_pass);
    else if (output_room(c, &c->out[i])) fds[i] = (struct pollfd){.fd = c->out[i].fd, .events = POLLIN};
  }
}

int watch_commands(struct pollfd *fds, int room, int *wait_ms) {
  int n = 0;
  for (struct command *c = H.commands; c; c = c->next) {
    c->slot = -1;
    if (c->state == COLLECTING || n + 4 > room) continue;
    c->slot = n;
    for (int i = 0; i < 4; i++) fds[n + i].fd = -1, fds[n + i].revents = 0;
    if (c->input.len > c->input.off && c->in >= 0) fds[n] = (struct pollfd){.fd = c->in, .events = POLLOUT};
    watch_outputs(c, fds + n + 1, wait_ms);
    fds[n + 3] = (struct pollfd){.fd = c->status, .events = POLLIN};
    n += 4;
    if (c->state == RUNNING && c->deadline) wake_by(wait_ms, c->deadline);
    if (c->state == KILLING || (c->state == LEFT && c->kill_left)) wake_by(wait_ms, c->next_pass);
    if (c->state == DRAINING && c->options & TTY) wake_by(wait_ms, c->give_up);
  }
  return n;
}

static void serve_outputs(struct command *c, const struct pollfd *fds) {
  for (int i = 0; i < 2; i++) {
    if (!fds[i].revents) continue;
    int came = read_output(c, &c->out[i]);
    if (came && c->state == LEFT) c->next_pass = now() + DISCARD_EVERY;
    if (came && c->state == DRAINING && c->options & TTY) c->give_up = now() + TTY_QUIET;
  }
}

static int has_pipes(const struct command *c) { return c->state == LEFT && (c->out[0].fd >= 0 || c->out[1].fd >= 0); }

void serve_commands(const struct pollfd *fds, int n) {
  int left = 0;
  for (struct command **at = &H.commands; *at;) {
    struct command *c = *at;
    if (c->state != COLLECTING) {
      write_input(c);
      if (c->slot >= 0 && c->slot + 4 <= n) serve_outputs(c, fds + c->slot + 1);
      read_status(c);
      advance(c);
    }
    if (has_pipes(c) && ++left > LEFT_MAX)
      for (int i = 0; i < 2; i++) close_fd(&c->out[i].fd);
    if (c->state == OVER) {
      *at = c->next;
      free_command(c);
    } else at = &c->next;
  }
}
