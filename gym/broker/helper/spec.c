// Reading what a command should be: a list of (tag, length, bytes), as the client packed it.
#include "helper.h"
#include "loop.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

static void *must(void *p) {
  if (!p) _exit(70);
  return p;
}

static char *copy_text(const unsigned char *p, uint32_t n) {
  char *text = must(malloc(n + 1));
  memcpy(text, p, n);
  text[n] = 0;
  return text;
}

static void append(char ***list, size_t *n, char *item) {
  if ((*n & (*n + 1)) == 0) *list = must(realloc(*list, (*n * 2 + 2) * sizeof **list));
  (*list)[(*n)++] = item;
  (*list)[*n] = NULL;
}

static void set_env(struct command *c, char *item) {
  size_t name = strcspn(item, "=") + 1;
  for (size_t i = 0; i < c->envc; i++)
    if (!strncmp(c->env[i], item, name)) {
      free(c->env[i]);
      c->env[i] = item;
      return;
    }
  append(&c->env, &c->envc, item);
}

static int take_options(struct command *c, const unsigned char *p, uint32_t n) {
  if (n != 24) return -1;
  memcpy(&c->options, p, 4);
  memcpy(&c->timeout_ms, p + 4, 8);
  memcpy(&c->max_output, p + 12, 8);
  memcpy(&c->rows, p + 20, 2);
  memcpy(&c->columns, p + 22, 2);
  return 0;
}

static int take_item(struct command *c, unsigned char tag, const unsigned char *p, uint32_t n) {
  if (tag == 'o') return take_options(c, p, n);
  if (tag == 'a') append(&c->argv, &c->argc, copy_text(p, n));
  else if (tag == 'e') set_env(c, copy_text(p, n));
  else if (tag == 'c') c->cwd = copy_text(p, n);
  else if (tag == 'n') c->name = copy_text(p, n);
  else if (tag == 'l' && n == 12 && c->limit_count < 8) {
    int32_t what;
    memcpy(&what, p, 4);
    c->limits[c->limit_count].what = what;
    memcpy(&c->limits[c->limit_count++].value, p + 4, 8);
  } else return -1;
  return 0;
}

int read_spec(struct command *c) {
  for (char **e = environ; e && *e; e++) append(&c->env, &c->envc, copy_text((unsigned char *)*e, (uint32_t)strlen(*e)));
  if (!c->env) c->env = must(calloc(1, sizeof *c->env));
  const unsigned char *p = c->spec.p, *end = p + c->spec.len;
  while (end - p >= 5) {
    uint32_t n;
    memcpy(&n, p + 1, 4);
    if (n > (size_t)(end - p - 5) || take_item(c, *p, p + 5, n) < 0) break;
    p += 5 + n;
  }
  int whole = p == end && c->argc && c->spec.len < SPEC_MAX;
  errno = c->spec.len >= SPEC_MAX ? E2BIG : EINVAL;
  buf_free(&c->spec);
  return whole ? 0 : -1;
}

void free_command(struct command *c) {
  for (size_t i = 0; i < c->argc; i++) free(c->argv[i]);
  for (size_t i = 0; i < c->envc; i++) free(c->env[i]);
  for (int i = 0; i < 2; i++) {
    free(c->out[i].ring);
    buf_free(&c->out[i].head);
  }
  buf_free(&c->spec);
  buf_free(&c->input);
  free(c->argv);
  free(c->env);
  free(c->cwd);
  free(c->name);
  free(c);
}
