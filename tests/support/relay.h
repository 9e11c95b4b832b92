#ifndef TESTS_SUPPORT_RELAY_H
#define TESTS_SUPPORT_RELAY_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * One connection through the proxy: the agent's socket, the server's socket, and the bytes between
 * them. Its role is known when the agent names the connection (CLIENT SETNAME), or when it begins a
 * handshake of TLS, which hides the name; until then no byte is forwarded. Nothing here blocks.
 *
 *   relay_init(&relay, agent_fd, server_fd)
 *   relay_interest / poll / relay_move, again and again, until relay_is_over
 *   relay_release
 */
enum relay_role {
  RELAY_INTAKE,
  RELAY_OUTBOX,
  RELAY_WORKERS, /* the number of roles that carry steps, events and results */
  RELAY_HEARTBEAT = RELAY_WORKERS,
  RELAY_ROLES,
  RELAY_UNKNOWN = RELAY_ROLES
};
enum relay_direction { RELAY_REQUEST, RELAY_REPLY, RELAY_DIRECTIONS };

/* A fault of a connection. Bytes count from its first one, in this direction. */
struct relay_fault {
  enum relay_direction direction;
  long byte;    /* the last one that is forwarded; 0: no fault */
  bool swallow; /* later bytes are discarded while the other direction stays open; the connection is
                   cut when the server has sent nothing for a while */
};

/* On a delayed connection: bytes up to this one, counted from the first, are forwarded at due_ms.
 */
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
  bool ended; /* the sender has closed its side */
};

struct relay {
  int fd[RELAY_DIRECTIONS]; /* the source of a direction: the agent's socket, the server's */
  struct relay_flow flow[RELAY_DIRECTIONS];
  enum relay_role role;
  enum relay_role role_of_tls; /* what its owner takes it for if it is one of TLS */
  struct relay_fault fault;
  int delay_ms; /* for each direction */
  bool deaf;    /* bytes of either side are discarded, an end is not forwarded */
  bool frozen;  /* nothing is forwarded, and nothing is lost */
  bool cut;     /* the fault has happened; the server still gets what was forwarded */
  long swallowed;
  int64_t swallowed_ms; /* when the last byte was */
  int64_t linger_ms;    /* until when a cut connection waits for the server to take the bytes */
};

void relay_init(struct relay *self, int agent_fd, int server_fd);
void relay_release(struct relay *self);

/* What to ask poll for; returns the time, of wait_now_ms, at which to call relay_move without an
   event, or -1. */
int64_t relay_interest(const struct relay *self, struct pollfd out[RELAY_DIRECTIONS]);

/* Forwards what can be forwarded. Calls `named` once, when the role is known. */
void relay_move(struct relay *self, void (*named)(void *context, struct relay *relay),
                void *context);

bool relay_is_over(const struct relay *self);

#endif
