// What the parts of the helper share: the shape of a frame, of a command, and a growing buffer.
#ifndef GYM_HELPER_H
#define GYM_HELPER_H
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PROTOCOL 1
#define FRAME_MAX 65536   // payload of one frame
#define FRAME_HEAD 9      // type, stream id, length; little-endian as both machines are
#define FRAME_END 0xA5    // a frame that padding completed lacks it, and is dropped
#define WINDOW (1 << 20)  // live output that may be under way without being acknowledged
#define OUT_FULL (1 << 19) // above this nothing more is read from commands
#define SPEC_MAX (16u << 20)

enum from_client {
  PAD = 0, HELLO = 'H', SPEC = 'R', GO = 'G', INPUT = 'I', INPUT_END = 'E', KILL = 'K', RESIZE = 'W',
  PING = 'P', CREDIT = 'C', PEEK = 'Q', FORGET = 'X',
};
enum to_client {
  HELLO_BACK = 'h', STARTED = 's', STDOUT = 'o', STDERR = 'e', TAIL = 't', RESULT = 'r', FAILED = 'x',
  PONG = 'p', CONSUMED = 'w', PEEKED = 'q',
};
enum option { LIVE = 1, TTY = 2, BUILTIN = 4, KILL_LEFTOVERS = 8, KEEP = 16 };
enum stage { AT_FORK = 1, AT_CWD, AT_EXEC, AT_TTY, AT_LIMIT, AT_FILE, AT_SPEC };

struct buf { unsigned char *p; size_t len, off, cap; };

struct output {             // one stream of a command
  int fd;
  uint64_t head_left;       // how much may still cross at once
  unsigned char *ring;      // the last bytes after the head
  size_t ring_max, ring_cap, ring_at, ring_len;
  uint64_t dropped, sent;    // `sent`: how much of the tail has crossed
  int64_t credit;           // LIVE: how much the client is ready to take
  int64_t drain;            // after the end: how much was in the pipe then; -1 until then
  struct buf head;          // KEEP: what crossed, for the client that adopts the command
};

enum state { COLLECTING, RUNNING, KILLING, DRAINING, TAILING, LEFT, OVER };

struct command {
  struct command *next;
  uint32_t id;
  enum state state;
  struct buf spec, input;
  char **argv, **env, *cwd, *name;
  size_t argc, envc;
  uint32_t options;
  uint64_t timeout_ms, max_output;
  uint16_t rows, columns;
  struct { int what; uint64_t value; } limits[8];
  int limit_count;
  int in, status;            // our ends
  int input_ended, mute, started, kill_left, forgotten, failed, slot, passes;
  uint32_t consumed;
  struct output out[2];
  pid_t guardian, child;     // 0 once reaped
  double began, deadline, ended, give_up, next_pass;
  int ended_known, timed_out, lost, code, signal;
  long ooms;
  double cpu;
  uint64_t max_rss;
};

#define STATUS_FD 3

struct record {              // from the guardian or a file operation, over the status pipe
  uint8_t kind;              // 'P' pid, 'E' exec went well, 'X' failed, 'S' ended
  uint8_t stage;
  int32_t value;             // pid, errno or wait status
  double cpu;
  uint64_t max_rss;
};

struct spawned { int in, out, err, status; pid_t guardian; };

void buf_room(struct buf *b, size_t more);
void buf_add(struct buf *b, const void *data, size_t n);
void buf_take(struct buf *b, size_t n);
void buf_free(struct buf *b);
double now(void);
long count_ooms(int fd);
int open_ooms(void);

extern int guard_first;    // commands may do nothing to process 1
void protect_first(void);
int spawn(struct command *c, struct spawned *s, int *stage);
void report_status(uint8_t kind, uint8_t stage, int32_t value, double cpu, uint64_t rss);
int run_file_operation(struct command *c);

// Signals everything below `root` but neither root nor what hangs below a spared pid. For SIGKILL all are stopped
// first: what is stopped cannot fork. Returns how many were alive, -1 without a readable /proc.
int signal_tree(pid_t root, int signal, const pid_t *spare, size_t spares);
#endif
