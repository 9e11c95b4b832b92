#ifndef TESTS_SUPPORT_RELAY_H
#define TESTS_SUPPORT_RELAY_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * One connection through the proxy: the agent's socket, the server's socket, and the bytes that are
 * on their way between them. Whose connection it is shows when the agent names it; until then
 * nothing goes on. Nothing here blocks.
 *
 *   relay_init(&relay, agent_fd, server_fd)
 *   relay_interest / poll / relay_move, again and again, until relay_is_over
 *   relay_release
 */
enum relay_role {
  RELAY_INTAKE,
  RELAY_OUTBOX,
  RELAY_WORKERS, /* so many carry steps and what becomes of them */
  RELAY_HEARTBEAT = RELAY_WORKERS,
  RELAY_ROLES,
  RELAY_UNKNOWN = RELAY_ROLES
};
enum relay_direction { RELAY_REQUEST, RELAY_REPLY, RELAY_DIRECTIONS };

/* What shall happen to a connection. Bytes count from its first one, in this direction. */
struct relay_fault {
  enum relay_direction direction;
  long byte;    /* this one is the last that goes through; 0: no fault */
  bool swallow; /* the other direction stays, what comes behind that byte is thrown away, and the
                   connection is cut only when the server has nothing more to say */
};

/* On a slow way: bytes up to this one, counted from the first, go on at this time. */
struct relay_mark {
  long end;
  int64_t due_ms;
};

#define RELAY_MARKS 256

struct relay_flow {
  char bytes[262144];
  size_t length;
  struct relay_mark marks[RELAY_MARKS];
  size_t marks_count;
  long taken;
  long passed;
  bool ended; /* the sender will send no more */
};

struct relay {
  int fd[RELAY_DIRECTIONS]; /* whom a direction comes from: the agent's socket, the server's */
  struct relay_flow flow[RELAY_DIRECTIONS];
  enum relay_role role;
  struct relay_fault fault;
  int delay_ms; /* for each direction */
  bool deaf;    /* what comes from either side is thrown away, neither side is told */
  bool frozen;  /* nothing moves, and nothing is lost */
  bool cut;     /* the fault has happened; the server still gets what went through */
  long swallowed;
  int64_t swallowed_ms; /* when the last byte was */
  int64_t linger_ms;    /* until when a cut connection waits for the server to take the bytes */
};

void relay_init(struct relay *self, int agent_fd, int server_fd);
void relay_release(struct relay *self);

/* What to ask poll for, and when to come again without it: milliseconds of wait_now_ms, or -1. */
int64_t relay_interest(const struct relay *self, struct pollfd out[RELAY_DIRECTIONS]);

/* Moves what can be moved. `named` is called once, when it is known whose connection it is. */
void relay_move(struct relay *self, void (*named)(void *context, struct relay *relay),
                void *context);

bool relay_is_over(const struct relay *self);

#endif
