// What a command writes: its first half crosses as it comes, of the rest the last bytes are kept here and cross at the
// end. LIVE output crosses whole, as fast as the client says that it takes it.
#define _GNU_SOURCE
#include "loop.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static int is_full(void) { return H.out.len - H.out.off >= OUT_FULL; }

static int crosses(const struct command *c, const struct output *o) { return c->options & LIVE || o->head_left; }

// How many bytes may be read from it now.
size_t output_room(const struct command *c, const struct output *o) {
  size_t room = FRAME_MAX;
  if (o->fd < 0) return 0;
  if (c->mute || c->state == LEFT) return room;
  if (o->drain >= 0 && room > (size_t)o->drain) room = (size_t)o->drain;
  if (!crosses(c, o)) return room;
  if (is_full()) return 0;
  if (!(c->options & LIVE)) return room < o->head_left ? room : o->head_left;
  if (o->credit <= 0) return 0;
  return room < (size_t)o->credit ? room : (size_t)o->credit;
}

static ssize_t read_across(struct command *c, struct output *o, size_t room) {
  buf_room(&H.out, FRAME_HEAD + room + 1);
  unsigned char *frame = H.out.p + H.out.len;
  ssize_t n = read(o->fd, frame + FRAME_HEAD, room);
  if (n <= 0) return n;
  uint32_t size = (uint32_t)n;
  frame[0] = o == &c->out[0] ? STDOUT : STDERR;
  memcpy(frame + 1, &c->id, 4);
  memcpy(frame + 5, &size, 4);
  frame[FRAME_HEAD + n] = FRAME_END;
  if (c->options & KEEP && !(c->options & LIVE)) buf_add(&o->head, frame + FRAME_HEAD, (size_t)n);
  H.out.len += FRAME_HEAD + (size_t)n + 1;
  if (c->options & LIVE) o->credit -= n;
  else o->head_left -= (uint64_t)n;
  return n;
}

static void grow_ring(struct output *o) {
  size_t cap = o->ring_cap ? o->ring_cap * 2 : 65536;
  if (cap > o->ring_max) cap = o->ring_max;
  unsigned char *grown = realloc(o->ring, cap);
  if (!grown) {  // then what is there has to do
    o->ring_max = o->ring_cap;
    return;
  }
  o->ring = grown;
  o->ring_cap = cap;
}

static ssize_t read_tail(struct output *o, size_t room) {
  static unsigned char waste[FRAME_MAX];
  if (o->ring_at == o->ring_cap && o->ring_cap < o->ring_max) grow_ring(o);
  if (o->ring_at == o->ring_cap) o->ring_at = 0;
  if (!o->ring_cap) {
    ssize_t n = read(o->fd, waste, room);
    if (n > 0) o->dropped += (uint64_t)n;
    return n;
  }
  if (room > o->ring_cap - o->ring_at) room = o->ring_cap - o->ring_at;
  ssize_t n = read(o->fd, o->ring + o->ring_at, room);
  if (n <= 0) return n;
  o->ring_at += (size_t)n;
  o->ring_len += (size_t)n;
  if (o->ring_len <= o->ring_cap) return n;
  o->dropped += o->ring_len - o->ring_cap;
  o->ring_len = o->ring_cap;
  return n;
}

// One read; 1 when something came.
int read_output(struct command *c, struct output *o) {
  static unsigned char waste[FRAME_MAX];
  size_t room = output_room(c, o);
  if (!room) return 0;
  ssize_t n = c->mute || c->state == LEFT ? read(o->fd, waste, room) : crosses(c, o) ? read_across(c, o, room) : read_tail(o, room);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
    if (o->drain > 0) o->drain = 0;
    return 0;
  }
  if (n <= 0) {
    close(o->fd);
    o->fd = -1;
    return 0;
  }
  if (o->drain >= 0) o->drain -= n;
  return 1;
}

void begin_drain_of(struct output *o, int tty) {
  int there = 0;
  if (o->fd < 0 || tty) return;
  o->drain = ioctl(o->fd, FIONREAD, &there) < 0 ? 0 : there;
}

// Sends what is left of a kept tail while there is room; 1 when all of it has crossed.
int send_tail(struct command *c, int which, int whole) {
  struct output *o = &c->out[which];
  uint8_t data[10 + 32768];
  if (!o->ring_len && !o->dropped) return 1;
  while (o->sent < o->ring_len || !o->sent) {
    if (!whole && is_full()) return 0;
    size_t start = o->ring_len < o->ring_cap ? 0 : o->ring_at % (o->ring_cap ? o->ring_cap : 1);
    size_t at = o->ring_len ? (start + o->sent) % o->ring_cap : 0, n = o->ring_len - o->sent;
    if (n > o->ring_cap - at) n = o->ring_cap - at;
    if (n > sizeof data - 10) n = sizeof data - 10;
    data[0] = (uint8_t)which;
    data[1] = o->sent == 0;  // the first piece takes the place of what an earlier peek sent
    memcpy(data + 2, &o->dropped, 8);
    if (n) memcpy(data + 10, o->ring + at, n);
    send_frame(TAIL, c->id, data, (uint32_t)(10 + n));
    o->sent += n;
    if (!n) break;
  }
  return 1;
}

void send_tails(struct command *c) {
  for (int i = 0; i < 2; i++) {
    if (H.out.len - H.out.off > (8u << 20)) break;  // asked faster than it reads
    for (int reads = 0; reads < 16 && read_output(c, &c->out[i]); reads++) {}
    c->out[i].sent = 0;
    send_tail(c, i, 1);
    c->out[i].sent = 0;
  }
  send_frame(PEEKED, c->id, NULL, 0);
}

void send_heads(struct command *c) {
  for (int i = 0; i < 2; i++) {
    struct output *o = &c->out[i];
    o->credit = WINDOW;
    for (size_t at = 0; at < o->head.len; at += FRAME_MAX) {
      size_t n = o->head.len - at < FRAME_MAX ? o->head.len - at : FRAME_MAX;
      send_frame(i ? STDERR : STDOUT, c->id, o->head.p + at, (uint32_t)n);
    }
  }
}
