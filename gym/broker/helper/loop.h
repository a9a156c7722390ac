// What the two halves of the loop share: the connection to the client (client.c) and the commands (commands.c).
#ifndef GYM_LOOP_H
#define GYM_LOOP_H
#include "helper.h"
#include <poll.h>
#include <sys/resource.h>

struct helper {
  int from, to, signals, ooms;
  double silence, linger, heard, eof_since;
  struct buf in, out;
  struct command *commands;
};
extern struct helper H;

void send_frame(uint8_t type, uint32_t id, const void *data, uint32_t n);

int read_spec(struct command *c);  // spec.c
void free_command(struct command *c);

size_t output_room(const struct command *c, const struct output *o);  // output.c
int read_output(struct command *c, struct output *o);
void begin_drain_of(struct output *o, int tty);
int send_tail(struct command *c, int which, int whole);
void send_tails(struct command *c);
void send_heads(struct command *c);

void start_command(struct command *c);
void add_input(struct command *c, const uint8_t *data, uint32_t n);
void kill_command(struct command *c, int signal);
void resize_command(struct command *c, const uint8_t *size);
void end_command(struct command *c);     // kill it and say nothing more of it
void forget_command(struct command *c);  // KEEP: its result has arrived
void resend_command(struct command *c);      // to a client that adopts it
void reaped(pid_t pid, int status, const struct rusage *use);
int watch_commands(struct pollfd *fds, int room, int *wait_ms);
void serve_commands(const struct pollfd *fds, int n);
#endif
