// Finding and ending process trees by /proc, the out-of-memory count, the clock, the buffer.
#define _GNU_SOURCE
#include "helper.h"
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void buf_room(struct buf *b, size_t more) {
  if (b->off && (b->off == b->len || b->off > (64u << 10))) {
    memmove(b->p, b->p + b->off, b->len - b->off);
    b->len -= b->off;
    b->off = 0;
  }
  if (b->cap - b->len >= more) return;
  size_t cap = b->cap ? b->cap : 4096;
  while (cap - b->len < more) cap *= 2;
  unsigned char *grown = realloc(b->p, cap);
  if (!grown) _exit(70);  // the sandbox has no memory left: its end is the message
  b->p = grown;
  b->cap = cap;
}

void buf_add(struct buf *b, const void *data, size_t n) {
  buf_room(b, n);
  if (n) memcpy(b->p + b->len, data, n);
  b->len += n;
}

void buf_take(struct buf *b, size_t n) {
  b->off += n;
  if (b->off != b->len) return;
  b->off = b->len = 0;
  if (b->cap <= (4u << 20)) return;
  free(b->p);
  b->p = NULL;
  b->cap = 0;
}

void buf_free(struct buf *b) {
  free(b->p);
  memset(b, 0, sizeof *b);
}

struct seen { pid_t pid, parent; char state; char below, stopped; };
struct table { struct seen *rows; size_t n, cap; };

static int read_stat(pid_t pid, struct seen *row) {
  char path[40], text[600];
  snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t n = read(fd, text, sizeof text - 1);
  close(fd);
  if (n <= 0) return -1;
  text[n] = 0;
  char *after = strrchr(text, ')');  // a name may hold brackets and blanks of its own
  int parent;
  char state;
  if (!after || sscanf(after + 1, " %c %d", &state, &parent) != 2) return -1;
  *row = (struct seen){.pid = pid, .parent = parent, .state = state};
  return 0;
}

static int by_pid(const void *a, const void *b) {
  pid_t x = ((const struct seen *)a)->pid, y = ((const struct seen *)b)->pid;
  return x < y ? -1 : x > y;
}

static int read_table(struct table *t) {
  DIR *proc = opendir("/proc");
  if (!proc) return -1;
  t->n = 0;
  for (struct dirent *e; (e = readdir(proc));) {
    if (!isdigit((unsigned char)e->d_name[0])) continue;
    if (t->n == t->cap) {
      size_t cap = t->cap ? t->cap * 2 : 256;
      struct seen *rows = realloc(t->rows, cap * sizeof *rows);
      if (!rows) break;
      t->rows = rows;
      t->cap = cap;
    }
    if (read_stat(atoi(e->d_name), &t->rows[t->n]) == 0) t->n++;
  }
  closedir(proc);
  qsort(t->rows, t->n, sizeof *t->rows, by_pid);
  return 0;
}

static struct seen *find(struct table *t, pid_t pid) {
  struct seen key = {.pid = pid};
  return bsearch(&key, t->rows, t->n, sizeof key, by_pid);
}

static int spared(pid_t pid, const pid_t *spare, size_t spares) {
  for (size_t i = 0; i < spares; i++)
    if (spare[i] == pid) return 1;
  return 0;
}

static void mark_below(struct table *t, pid_t root, const pid_t *spare, size_t spares) {
  for (int grew = 1; grew;) {
    grew = 0;
    for (size_t i = 0; i < t->n; i++) {
      struct seen *row = &t->rows[i];
      if (row->below || row->pid == root || spared(row->pid, spare, spares)) continue;
      struct seen *parent = row->parent == root ? NULL : find(t, row->parent);
      if (row->parent != root && !(parent && parent->below)) continue;
      row->below = 1;
      grew = 1;
    }
  }
}

static int is_alive(const struct seen *row) { return row->below && !strchr("ZXx", row->state); }

static int signal_marked(struct table *t, int signal) {
  int alive = 0;
  for (size_t i = 0; i < t->n; i++)
    if (is_alive(&t->rows[i])) {
      alive++;
      if (signal) kill(t->rows[i].pid, signal);
    }
  return alive;
}

int signal_tree(pid_t root, int signal, const pid_t *spare, size_t spares) {
  struct table t = {0};
  int alive = -1, before = -1;
  for (int pass = 0; pass < 64; pass++) {
    if (read_table(&t) < 0) break;
    mark_below(&t, root, spare, spares);
    if (signal != SIGKILL) {
      alive = signal_marked(&t, signal);
      break;
    }
    alive = signal_marked(&t, SIGSTOP);
    if (alive == 0 || alive == before) break;  // no new process since the last stop
    before = alive;
  }
  if (signal == SIGKILL) signal_marked(&t, SIGKILL);
  free(t.rows);
  return alive;
}

int open_ooms(void) {
  int fd = open("/sys/fs/cgroup/memory.events", O_RDONLY | O_CLOEXEC);
  return fd >= 0 ? fd : open("/sys/fs/cgroup/memory/memory.oom_control", O_RDONLY | O_CLOEXEC);
}

long count_ooms(int fd) {
  char text[1024];
  ssize_t n = fd < 0 ? -1 : pread(fd, text, sizeof text - 1, 0);
  if (n <= 0) return 0;
  text[n] = 0;
  for (char *line = text; line; line = strchr(line, '\n')) {
    while (*line == '\n') line++;
    if (!strncmp(line, "oom_kill ", 9)) return atol(line + 9);
    if (!*line) break;
  }
  return 0;
}
