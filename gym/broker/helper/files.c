// File operations, each in a process of its own with its streams like a command's: no slow disk or pipe of a
// task can hold up the helper. argv[0] names the operation.
#define _GNU_SOURCE
#include "helper.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LIST_MAX 2000000

static char temporary[PATH_MAX];
static char chunk[1 << 16];
static struct buf text;
static long listed;

static int failed(void) {
  int error = errno;
  if (*temporary) unlink(temporary);
  report_status('X', AT_FILE, error, 0, 0);
  return 1;
}

static int put(const void *data, size_t n) {
  for (const char *p = data; n;) {
    ssize_t done = write(1, p, n);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return -1;
    p += done;
    n -= (size_t)done;
  }
  return 0;
}

static int flush(size_t above) {
  if (text.len <= above) return 0;
  int done = put(text.p, text.len);
  text.len = 0;
  return done;
}

static const char *kind_of(mode_t mode) {
  return S_ISREG(mode) ? "file" : S_ISDIR(mode) ? "dir" : S_ISLNK(mode) ? "link" : "other";
}

// One entry: eight fields, each ended by a zero byte.
static int print_entry(const char *path, int dir, const char *name) {
  struct stat st;
  char target[PATH_MAX] = "", line[PATH_MAX];
  if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0) return -1;
  if (S_ISLNK(st.st_mode)) {
    ssize_t n = readlinkat(dir, name, target, sizeof target - 1);
    target[n < 0 ? 0 : n] = 0;
  }
  int n = snprintf(line, sizeof line, "%s%c%lld%c%o%c%lld.%09ld%c%u%c%u%c", kind_of(st.st_mode), 0, (long long)st.st_size, 0,
                   (unsigned)(st.st_mode & 07777), 0, (long long)st.st_mtim.tv_sec, (long)st.st_mtim.tv_nsec, 0,
                   (unsigned)st.st_uid, 0, (unsigned)st.st_gid, 0);
  buf_add(&text, line, (size_t)n);
  buf_add(&text, path, strlen(path) + 1);
  buf_add(&text, target, strlen(target) + 1);
  return flush(32768);
}

static int list_below(int dir, char *path, size_t length, int recursive) {
  DIR *open_dir = fdopendir(dir);
  if (!open_dir) return -1;
  int result = 0;
  for (struct dirent *e; !result && (e = readdir(open_dir));) {
    if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
    size_t more = strlen(e->d_name);
    if (length + more + 2 > PATH_MAX || ++listed > LIST_MAX) {
      errno = listed > LIST_MAX ? E2BIG : ENAMETOOLONG;
      result = -1;
      break;
    }
    size_t at = length;
    if (path[at - 1] != '/') path[at++] = '/';
    memcpy(path + at, e->d_name, more + 1);
    if (print_entry(path, dirfd(open_dir), e->d_name) < 0) {
      result = errno == ENOENT ? 0 : -1;  // gone since
      continue;
    }
    if (!recursive) continue;
    int below = openat(dirfd(open_dir), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (below >= 0) result = list_below(below, path, at + more, 1);
  }
  closedir(open_dir);
  path[length] = 0;
  return result;
}

static int list(const char *from, int recursive) {
  static char path[PATH_MAX];
  if (snprintf(path, sizeof path, "%s", from) >= (int)sizeof path) return errno = ENAMETOOLONG, -1;
  int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  return dir < 0 || list_below(dir, path, strlen(path), recursive) < 0 ? -1 : flush(0);
}

static int read_range(const char *path, long long offset, long long length) {
  int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);  // a pipe without a writer must not block us
  struct stat st;
  if (fd < 0 || fstat(fd, &st) < 0) return -1;
  if (S_ISDIR(st.st_mode)) return errno = EISDIR, -1;
  if (!S_ISREG(st.st_mode)) return errno = EINVAL, -1;  // of a device there may be no end
  if (offset && lseek(fd, offset, SEEK_SET) < 0) return -1;
  while (length) {
    size_t want = length < 0 || length > (long long)sizeof chunk ? sizeof chunk : (size_t)length;
    ssize_t n = read(fd, chunk, want);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n < 0 || (n > 0 && put(chunk, (size_t)n) < 0)) return -1;
    if (n == 0) break;
    if (length > 0) length -= n;
  }
  return 0;
}

static int copy_in(int fd) {
  for (;;) {
    ssize_t n = read(0, chunk, sizeof chunk);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return (int)n;
    for (ssize_t at = 0; at < n;) {
      ssize_t done = write(fd, chunk + at, (size_t)(n - at));
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) return -1;
      at += done;
    }
  }
}

static void give_up(int signal) {
  (void)signal;
  if (*temporary) unlink(temporary);
  _exit(1);
}

static int write_in_place(const char *path, int flags, int mode) {
  int fd = open(path, O_WRONLY | O_CREAT | O_NONBLOCK | O_CLOEXEC | O_NOCTTY | flags, mode < 0 ? 0666 : mode);
  if (fd < 0) return -1;
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
  if (mode >= 0 && fchmod(fd, (mode_t)mode) < 0) return -1;
  return copy_in(fd) < 0 || close(fd) < 0 ? -1 : 0;
}

// Into a new file beside it and then over it: a reader sees the old text or the new, a write cut short leaves the old.
static int write_file(const char *given, int mode, int append) {
  static char path[PATH_MAX];
  struct stat st;
  int there = stat(given, &st) == 0;
  if (there && S_ISDIR(st.st_mode)) return errno = EISDIR, -1;
  if (there && !S_ISREG(st.st_mode) && !S_ISCHR(st.st_mode)) return errno = EINVAL, -1;  // who reads a pipe may never come
  if (append || (there && !S_ISREG(st.st_mode))) return write_in_place(given, append ? O_APPEND : 0, mode);
  if (!realpath(given, path) && snprintf(path, sizeof path, "%s", given) >= (int)sizeof path) return errno = ENAMETOOLONG, -1;
  char *slash = strrchr(path, '/');
  int folder = slash ? (int)(slash - path) + 1 : 0;
  struct stat link;
  int dangling = !there && lstat(given, &link) == 0;
  if (dangling || snprintf(temporary, sizeof temporary, "%.*s.gym-%d-%x", folder, path, getpid(), (unsigned)(now() * 1e6)) >= (int)sizeof temporary)
    return *temporary = 0, write_in_place(given, O_TRUNC, mode);
  int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode < 0 ? 0666 : mode);
  if (fd < 0) {
    int error = errno;
    *temporary = 0;
    if (there && (error == EACCES || error == EPERM || error == EROFS)) return write_in_place(given, O_TRUNC, mode);
    return errno = error, -1;
  }
  if (there && fchown(fd, st.st_uid, st.st_gid) < 0 && st.st_uid != geteuid()) { /* it becomes ours, as cp makes it */ }
  if (mode >= 0 && fchmod(fd, (mode_t)mode) < 0) return -1;
  if (mode < 0 && there && fchmod(fd, st.st_mode & 07777) < 0) return -1;
  if (copy_in(fd) < 0 || close(fd) < 0 || rename(temporary, path) < 0) return -1;
  *temporary = 0;
  return 0;
}

static int make_dir(char *path, int mode) {
  struct stat st;
  for (char *p = path + 1; *path && *p; p++) {
    if (*p != '/') continue;
    *p = 0;
    if (mkdir(path, 0777) < 0 && (errno != EEXIST || stat(path, &st) < 0)) return -1;
    *p = '/';
  }
  if (mkdir(path, mode < 0 ? 0777 : (mode_t)mode) < 0) {
    int error = errno;
    if (error != EEXIST || stat(path, &st) < 0 || !S_ISDIR(st.st_mode)) return errno = error, -1;
  }
  return mode < 0 ? 0 : chmod(path, (mode_t)mode);
}

struct above { struct above *next; dev_t device; ino_t inode; char name[]; };

// One's own folder whatever its mode says: else a user without the right to write could keep its files by a `chmod`.
static int open_folder(int parent, const char *name) {
  int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  int fd = openat(parent, name, flags);
  if (fd < 0 && errno == EACCES && fchmodat(parent, name, 0700, 0) == 0) fd = openat(parent, name, flags);
  struct stat st;
  if (fd >= 0 && fstat(fd, &st) == 0 && (st.st_mode & 0700) != 0700) fchmod(fd, (st.st_mode & 07777) | 0700);
  return fd;
}

// Removes what is no folder; the first folder among what is left, or "" where there is none.
static int remove_plain(int fd, char found[NAME_MAX + 1]) {
  int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  DIR *dir = copy < 0 ? NULL : fdopendir(copy);
  if (!dir) return -1;
  int result = 0;
  *found = 0;
  for (int retry = 1; retry && !result && !*found;) {  // some file systems skip entries while others go
    retry = 0;
    rewinddir(dir);
    for (struct dirent *e; !result && !*found && (e = readdir(dir));) {
      if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
      retry = 1;
      if (unlinkat(fd, e->d_name, 0) == 0 || errno == ENOENT) continue;
      if (errno == EISDIR || errno == EPERM) snprintf(found, NAME_MAX + 1, "%s", e->d_name);
      else result = -1;
    }
  }
  int error = errno;
  closedir(dir);
  return errno = error, result;
}

static int descend(int *fd, struct above **stack, const char *name) {
  struct stat st;
  int below = open_folder(*fd, name);
  struct above *here = below < 0 ? NULL : malloc(sizeof *here + strlen(name) + 1);
  if (!here || fstat(*fd, &st) < 0) return -1;
  *here = (struct above){.next = *stack, .device = st.st_dev, .inode = st.st_ino};
  strcpy(here->name, name);
  *stack = here;
  close(*fd);
  *fd = below;
  return 0;
}

static int ascend(int *fd, struct above **stack) {
  struct above *here = *stack;
  struct stat st;
  int up = openat(*fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (up < 0 || fstat(up, &st) < 0) return -1;
  if (st.st_dev != here->device || st.st_ino != here->inode) return errno = ESTALE, -1;  // moved meanwhile
  close(*fd);
  *fd = up;
  *stack = here->next;
  int result = unlinkat(up, here->name, AT_REMOVEDIR);
  free(here);
  return result;
}

// A tree may be deeper than descriptors or a stack allow: the way back is kept by names.
static int remove_tree(const char *path) {
  static char name[NAME_MAX + 1];
  struct above *stack = NULL;
  if (unlink(path) == 0) return 0;
  if (errno != EISDIR && errno != EPERM) return -1;
  int fd = open_folder(AT_FDCWD, path);
  if (fd < 0) return -1;
  for (int done = 0; !done;) {
    if (remove_plain(fd, name) < 0) return -1;
    done = !*name && !stack;
    if (!done && (*name ? descend(&fd, &stack, name) : ascend(&fd, &stack)) < 0) return -1;
  }
  close(fd);
  return rmdir(path);
}

static int remove_path(const char *path, int recursive) {
  if (recursive) return remove_tree(path);
  if (unlink(path) == 0) return 0;
  return errno == EISDIR || errno == EPERM ? rmdir(path) : -1;
}

static int set_times(const char *path, const char *stamp) {
  char *dot;
  long long seconds = strtoll(stamp, &dot, 10);
  struct timespec when = {.tv_sec = seconds, .tv_nsec = *dot == '.' ? atol(dot + 1) : 0};
  struct timespec both[2] = {when, when};
  return utimensat(AT_FDCWD, path, both, AT_SYMLINK_NOFOLLOW);
}

static int mode_of(const char *octal) { return *octal ? (int)strtol(octal, NULL, 8) : -1; }

static int operate(const char *what, char **a, size_t n) {
  if (n == 1 && !strcmp(what, "stat")) return print_entry(a[0], AT_FDCWD, a[0]) < 0 ? -1 : flush(0);
  if (n == 2 && !strcmp(what, "list")) return list(a[0], *a[1] == '1');
  if (n == 3 && !strcmp(what, "read")) return read_range(a[0], atoll(a[1]), atoll(a[2]));
  if (n == 3 && !strcmp(what, "write")) return write_file(a[0], mode_of(a[1]), *a[2] == '1');
  if (n == 2 && !strcmp(what, "mkdir")) return make_dir(a[0], mode_of(a[1]));
  if (n == 2 && !strcmp(what, "link")) return symlink(a[1], a[0]);
  if (n == 2 && !strcmp(what, "remove")) return remove_path(a[0], *a[1] == '1');
  if (n == 2 && !strcmp(what, "times")) return set_times(a[0], a[1]);
  if (n == 2 && !strcmp(what, "chmod")) return chmod(a[0], (mode_t)mode_of(a[1]));
  return errno = ENOSYS, -1;
}

int run_file_operation(struct command *c) {
  struct sigaction end = {.sa_handler = give_up}, ignore = {.sa_handler = SIG_IGN};
  sigaction(SIGTERM, &end, NULL);
  sigaction(SIGPIPE, &ignore, NULL);
  sigset_t term;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  sigprocmask(SIG_UNBLOCK, &term, NULL);
  if (c->cwd && chdir(c->cwd) < 0) return failed();
  if (operate(c->argv[0], c->argv + 1, c->argc - 1) < 0) return failed();
  return 0;
}
