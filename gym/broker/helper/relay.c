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

#define MAX_PORTS 8
#define MAX_PEERS 64
#define PIECE 16384

struct connection {          // one TCP connection of a process in the sandbox
  int fd;                    // -1: free
  uint32_t id;
  int64_t credit;            // how much the broker is ready to take
  uint32_t written;          // reported to the broker once it is worth a frame
  int read_over, end_asked;
  struct buf out;
};

static struct {
  int fd[MAX_PORTS], udp[MAX_PORTS], count;
  struct connection connections[RELAY_CONNECTIONS];
  struct sockaddr_in peers[MAX_PEERS];
  int peer_port[MAX_PEERS];
  uint32_t last_id, last_peer;
  struct buf in, out;
} R;

static void send_relay_frame(uint8_t type, uint32_t id, const void *data, uint32_t n) {
  buf_room(&R.out, RELAY_HEAD + n);
  buf_add(&R.out, &type, 1);
  buf_add(&R.out, &id, 4);
  buf_add(&R.out, &n, 4);
  if (n) buf_add(&R.out, data, n);
}

static void drop(struct connection *l, int reset) {
  if (reset) send_relay_frame('R', l->id, NULL, 0);
  struct linger now_gone = {1, 0};  // a reset, so that the other end notices
  if (!l->end_asked || l->out.len > l->out.off) setsockopt(l->fd, SOL_SOCKET, SO_LINGER, &now_gone, sizeof now_gone);
  close(l->fd);
  buf_free(&l->out);
  memset(l, 0, sizeof *l);
  l->fd = -1;
}

static int open_port(const char *address, const char *word, int *udp) {
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

static struct connection *free_connection(void) {
  for (int i = 0; i < RELAY_CONNECTIONS; i++)
    if (R.connections[i].fd < 0) return R.connections + i;
  return NULL;
}

static void accept_connection(int port) {
  struct connection *l = free_connection();
  if (!l) return;
  int one = 1;
  uint8_t which = (uint8_t)port;
  int fd = accept4(R.fd[port], NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) return;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  *l = (struct connection){.fd = fd, .id = ++R.last_id, .credit = RELAY_WINDOW};
  send_relay_frame('O', l->id, &which, 1);
}

static void take_datagram(int port) {
  uint8_t data[1 + 1500];
  uint32_t slot = R.last_peer++ % MAX_PEERS;
  socklen_t size = sizeof R.peers[slot];
  ssize_t n = recvfrom(R.fd[port], data + 1, sizeof data - 1, 0, (struct sockaddr *)&R.peers[slot], &size);
  if (n <= 0) return;
  data[0] = (uint8_t)port;
  R.peer_port[slot] = port;
  send_relay_frame('U', slot, data, (uint32_t)n + 1);
}

static void read_connection(struct connection *l) {
  uint8_t data[PIECE];
  size_t max = l->credit < PIECE ? (size_t)l->credit : PIECE;
  ssize_t n = read(l->fd, data, max);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n < 0) {
    drop(l, 1);
  } else if (n == 0) {
    l->read_over = 1;
    send_relay_frame('E', l->id, NULL, 0);
    if (l->end_asked && l->out.len == l->out.off) drop(l, 0);
  } else {
    l->credit -= n;
    send_relay_frame('D', l->id, data, (uint32_t)n);
  }
}

static void write_connection(struct connection *l) {
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
    send_relay_frame('W', l->id, &l->written, 4);
    l->written = 0;
  }
  if (!empty || l->end_asked != 1) return;
  l->end_asked = 2;
  shutdown(l->fd, SHUT_WR);
  if (l->read_over) drop(l, 0);
}

static void handle_frame(uint8_t type, uint32_t id, const uint8_t *data, uint32_t n) {
  struct connection *l = NULL;
  uint32_t number = 0;
  if (type == 'U') {
    if (id < MAX_PEERS && n)
      sendto(R.fd[R.peer_port[id]], data, n, MSG_NOSIGNAL, (struct sockaddr *)&R.peers[id], sizeof R.peers[id]);
    return;
  }
  for (int i = 0; i < RELAY_CONNECTIONS && !l; i++)
    if (R.connections[i].fd >= 0 && R.connections[i].id == id) l = R.connections + i;
  if (!l) return;
  if (type == 'D') {
    buf_add(&l->out, data, n);
    write_connection(l);
  } else if (type == 'E') {
    l->end_asked = 1;
    write_connection(l);
  } else if (type == 'R') {
    drop(l, 0);
  } else if (type == 'W' && n == 4) {
    memcpy(&number, data, 4);
    l->credit += number;
  }
}

static void read_broker(void) {
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
    handle_frame(frame[0], id, frame + RELAY_HEAD, n);
    buf_take(&R.in, RELAY_HEAD + (size_t)n);
  }
}

static void write_broker(void) {
  while (R.out.len > R.out.off) {
    ssize_t n = write(1, R.out.p + R.out.off, R.out.len - R.out.off);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) exit(0);
    buf_take(&R.out, (size_t)n);
  }
}

static void poll_once(void) {
  struct pollfd fds[2 + MAX_PORTS + RELAY_CONNECTIONS];
  struct pollfd *ports = fds + 2, *connections = fds + 2 + MAX_PORTS;
  int full = R.out.len - R.out.off > OUT_FULL, room = free_connection() != NULL;
  fds[0] = (struct pollfd){.fd = 0, .events = POLLIN};
  fds[1] = (struct pollfd){.fd = R.out.len > R.out.off ? 1 : -1, .events = POLLOUT};
  for (int i = 0; i < MAX_PORTS; i++)
    ports[i] = (struct pollfd){.fd = i < R.count && !full && (R.udp[i] || room) ? R.fd[i] : -1, .events = POLLIN};
  for (int i = 0; i < RELAY_CONNECTIONS; i++) {
    struct connection *l = R.connections + i;
    int reads = !full && !l->read_over && l->credit > 0, writes = l->out.len > l->out.off;
    connections[i] = (struct pollfd){.fd = reads || writes ? l->fd : -1};
    connections[i].events = (short)((reads ? POLLIN : 0) | (writes ? POLLOUT : 0));
  }
  if (poll(fds, sizeof fds / sizeof *fds, -1) < 0) return;
  for (int i = 0; i < RELAY_CONNECTIONS; i++) {
    struct connection *l = R.connections + i;
    short what = connections[i].revents;
    if (connections[i].fd < 0 || connections[i].fd != l->fd) continue;
    if (what & POLLOUT) write_connection(l);
    if (l->fd >= 0 && what & (POLLIN | POLLHUP | POLLERR) && !l->read_over && l->credit > 0) read_connection(l);
    else if (l->fd >= 0 && what & POLLERR) drop(l, 1);
  }
  for (int i = 0; i < R.count; i++)
    if (ports[i].revents) R.udp[i] ? take_datagram(i) : accept_connection(i);
  if (fds[0].revents) read_broker();
  write_broker();
}

int relay(int argc, char **argv) {
  uint8_t open[MAX_PORTS] = {0};
  if (argc < 4 || argc > 3 + MAX_PORTS) {
    fprintf(stderr, "gym-helper: --relay takes an address and up to %d of tcp:PORT, udp:PORT\n", MAX_PORTS);
    return 64;
  }
  for (int i = 0; i < RELAY_CONNECTIONS; i++) R.connections[i].fd = -1;
  for (int i = 3; i < argc; i++, R.count++) {
    R.fd[R.count] = open_port(argv[2], argv[i], R.udp + R.count);
    open[R.count] = R.fd[R.count] >= 0;
  }
  signal(SIGPIPE, SIG_IGN);
  fcntl(1, F_SETFL, fcntl(1, F_GETFL) | O_NONBLOCK);
  prctl(PR_SET_NAME, "gym-relay");
  send_relay_frame('L', RELAY_CONNECTIONS, open, (uint32_t)R.count);
  for (;;) poll_once();
}
