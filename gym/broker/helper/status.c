// Reports of a guardian, a command or a file operation to the helper, over the status pipe.
#include "helper.h"
#include <errno.h>
#include <unistd.h>

void report_status(uint8_t kind, uint8_t stage, int32_t value, double cpu, uint64_t rss) {
  struct record r = {kind, stage, value, cpu, rss};
  ssize_t n;
  do n = write(STATUS_FD, &r, sizeof r);
  while (n < 0 && errno == EINTR);
}
