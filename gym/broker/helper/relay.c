// --relay: a command that listens on the sandbox's own loopback and carries what arrives over its stdin and stdout, so
// that a sandbox without any network can speak to the gate in its broker, and to nothing else.
#define _GNU_SOURCE
#include "relay.h"
#include "helper.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define DOORS 8
#define PEERS 64
#define PIECE 16384

struct line {                // one TCP connection of somebody in the sandbox
  int fd;                    // -1: free
  uint32_t id;
  int64_t credit;            // how much the broker is ready to take
  uint32_t written;          // told to the broker once it is worth a frame
  int read_over, end_asked;
  struct buf out;
};

static struct {
  int fd[DOORS], udp[DOORS], count;
  struct line lines[RELAY_LINES];
  struct sockaddr_in peers[PEERS];
  int peer_door[PEERS];
  uint32_t last_id, last_peer;
  struct buf in, out;
} R;

static void tell(uint8_t type, uint32_t id, const void *data, uint32_t n) {
  buf_room(&R.out, RELAY_HEAD + n);
  buf_add(&R.out, &type, 1);
  buf_add(&R.out, &id, 4);
  buf_add(&R.out, &n, 4);
  if (n) buf_add(&R.out, data, n);
}

static void drop(struct line *l, int say) {
  if (say) tell('R', l->id, NULL, 0);
  struct linger now_gone = {1, 0};  // a reset: whoever holds the other end is to notice
  if (!l->end_asked || l->out.len > l->out.off) setsockopt(l->fd, SOL_SOCKET, SO_LINGER, &now_gone, sizeof now_gone);
  close(l->fd);
  buf_free(&l->out);
  memset(l, 0, sizeof *l);
  l->fd = -1;
}

static int open_door(const char *address, const char *word, int *udp) {
  struct sockaddr_in at = {.sin_family = AF_INET};
  int one = 1;
  *udp = !strncmp(word, "udp:", 4);
  at.sin_port = htons((uint16_t)atoi(word + 4));
  if (strlen(word) < 5 || inet_pton(AF_INET, address, &at.sin_addr) != 1) return -1;
  int fd = socket(AF_INET, (*udp ? SOCK_DGRAM : SOCK_STREAM) | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (bind(fd, (struct sockaddr *)&at, sizeof at) == 0 && (*udp || listen(fd, 128) == 0)) return fd;
  close(fd);
  return -1;
}

static struct line *free_line(void) {
  for (int i = 0; i < RELAY_LINES; i++)
    if (R.lines[i].fd < 0) return R.lines + i;
  return NULL;
}

static void accept_line(int door) {
  struct line *l = free_line();
  if (!l) return;
  int one = 1;
  uint8_t which = (uint8_t)door;
  int fd = accept4(R.fd[door], NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) return;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  *l = (struct line){.fd = fd, .id = ++R.last_id, .credit = RELAY_WINDOW};
  tell('O', l->id, &which, 1);
}

static void take_datagram(int door) {
  uint8_t data[1 + 1500];
  uint32_t slot = R.last_peer++ % PEERS;
  socklen_t size = sizeof R.peers[slot];
  ssize_t n = recvfrom(R.fd[door], data + 1, sizeof data - 1, 0, (struct sockaddr *)&R.peers[slot], &size);
  if (n <= 0) return;
  data[0] = (uint8_t)door;
  R.peer_door[slot] = door;
  tell('U', slot, data, (uint32_t)n + 1);
}

static void read_line(struct line *l) {
  uint8_t data[PIECE];
  size_t most = l->credit < PIECE ? (size_t)l->credit : PIECE;
  ssize_t n = read(l->fd, data, most);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n < 0) {
    drop(l, 1);
  } else if (n == 0) {
    l->read_over = 1;
    tell('E', l->id, NULL, 0);
    if (l->end_asked && l->out.len == l->out.off) drop(l, 0);
  } else {
    l->credit -= n;
    tell('D', l->id, data, (uint32_t)n);
  }
}

static void write_line(struct line *l) {
  while (l->out.len > l->out.off) {
    ssize_t n = send(l->fd, l->out.p + l->out.off, l->out.len - l->out.off, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n <= 0) return drop(l, 1);
    buf_take(&l->out, (size_t)n);
    l->written += (uint32_t)n;
  }
  int empty = l->out.len == l->out.off;
  if (l->written && (empty || l->written > RELAY_WINDOW / 4)) {
    tell('W', l->id, &l->written, 4);
    l->written = 0;
  }
  if (!empty || l->end_asked != 1) return;
  l->end_asked = 2;
  shutdown(l->fd, SHUT_WR);
  if (l->read_over) drop(l, 0);
}

static void obey(uint8_t type, uint32_t id, const uint8_t *data, uint32_t n) {
  struct line *l = NULL;
  uint32_t number = 0;
  if (type == 'U') {
    if (id < PEERS && n)
      sendto(R.fd[R.peer_door[id]], data, n, MSG_NOSIGNAL, (struct sockaddr *)&R.peers[id], sizeof R.peers[id]);
    return;
  }
  for (int i = 0; i < RELAY_LINES && !l; i++)
    if (R.lines[i].fd >= 0 && R.lines[i].id == id) l = R.lines + i;
  if (!l) return;
  if (type == 'D') {
    buf_add(&l->out, data, n);
    write_line(l);
  } else if (type == 'E') {
    l->end_asked = 1;
    write_line(l);
  } else if (type == 'R') {
    drop(l, 0);
  } else if (type == 'W' && n == 4) {
    memcpy(&number, data, 4);
    l->credit += number;
  }
}

static void hear(void) {
  buf_room(&R.in, 65536);
  ssize_t got = read(0, R.in.p + R.in.len, 65536);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) exit(0);
  R.in.len += (size_t)got;
  for (;;) {
    size_t have = R.in.len - R.in.off;
    if (have < RELAY_HEAD) return;
    const uint8_t *frame = R.in.p + R.in.off;
    uint32_t id, n;
    memcpy(&id, frame + 1, 4);
    memcpy(&n, frame + 5, 4);
    if (n > FRAME_MAX) exit(65);
    if (have < RELAY_HEAD + (size_t)n) return;
    obey(frame[0], id, frame + RELAY_HEAD, n);
    buf_take(&R.in, RELAY_HEAD + (size_t)n);
  }
}

static void say(void) {
  while (R.out.len > R.out.off) {
    ssize_t n = write(1, R.out.p + R.out.off, R.out.len - R.out.off);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) exit(0);
    buf_take(&R.out, (size_t)n);
  }
}

static void turn(void) {
  struct pollfd fds[2 + DOORS + RELAY_LINES];
  struct pollfd *doors = fds + 2, *lines = fds + 2 + DOORS;
  int full = R.out.len - R.out.off > OUT_FULL, room = free_line() != NULL;
  fds[0] = (struct pollfd){.fd = 0, .events = POLLIN};
  fds[1] = (struct pollfd){.fd = R.out.len > R.out.off ? 1 : -1, .events = POLLOUT};
  for (int i = 0; i < DOORS; i++)
    doors[i] = (struct pollfd){.fd = i < R.count && !full && (R.udp[i] || room) ? R.fd[i] : -1, .events = POLLIN};
  for (int i = 0; i < RELAY_LINES; i++) {
    struct line *l = R.lines + i;
    int reads = !full && !l->read_over && l->credit > 0, writes = l->out.len > l->out.off;
    lines[i] = (struct pollfd){.fd = reads || writes ? l->fd : -1};
    lines[i].events = (short)((reads ? POLLIN : 0) | (writes ? POLLOUT : 0));
  }
  if (poll(fds, sizeof fds / sizeof *fds, -1) < 0) return;
  for (int i = 0; i < RELAY_LINES; i++) {
    struct line *l = R.lines + i;
    short what = lines[i].revents;
    if (lines[i].fd < 0 || lines[i].fd != l->fd) continue;
    if (what & POLLOUT) write_line(l);
    if (l->fd >= 0 && what & (POLLIN | POLLHUP | POLLERR) && !l->read_over && l->credit > 0) read_line(l);
    else if (l->fd >= 0 && what & POLLERR) drop(l, 1);
  }
  for (int i = 0; i < R.count; i++)
    if (doors[i].revents) R.udp[i] ? take_datagram(i) : accept_line(i);
  if (fds[0].revents) hear();
  say();
}

int relay(int argc, char **argv) {
  uint8_t open[DOORS] = {0};
  if (argc < 4 || argc > 3 + DOORS) {
    fprintf(stderr, "gym-helper: --relay takes an address and up to %d of tcp:PORT, udp:PORT\n", DOORS);
    return 64;
  }
  for (int i = 0; i < RELAY_LINES; i++) R.lines[i].fd = -1;
  for (int i = 3; i < argc; i++, R.count++) {
    R.fd[R.count] = open_door(argv[2], argv[i], R.udp + R.count);
    open[R.count] = R.fd[R.count] >= 0;
  }
  signal(SIGPIPE, SIG_IGN);
  fcntl(1, F_SETFL, fcntl(1, F_GETFL) | O_NONBLOCK);
  prctl(PR_SET_NAME, "gym-relay");
  tell('L', RELAY_LINES, open, (uint32_t)R.count);
  for (;;) turn();
}
