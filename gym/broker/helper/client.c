// The helper's state, and the frames that it sends to its client.
#include "loop.h"
#include <string.h>

struct helper H;

void send_frame(uint8_t type, uint32_t id, const void *data, uint32_t n) {
  uint8_t head[FRAME_HEAD], end = FRAME_END;
  head[0] = type;
  memcpy(head + 1, &id, 4);
  memcpy(head + 5, &n, 4);
  buf_room(&H.out, FRAME_HEAD + n + 1);
  buf_add(&H.out, head, FRAME_HEAD);
  buf_add(&H.out, data, n);
  buf_add(&H.out, &end, 1);
}
