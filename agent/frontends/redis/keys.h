#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * The names of the Redis keys of one job (wire/PROTOCOL.md, Keys), for the agent and the client.
 * The job id is used verbatim: `{pipe-42}` is a hash tag that puts them all in one Redis Cluster
 * slot.
 */
struct keys {
  const char *job_id;
  char *in;        /* LIST: steps that wait; pushed at the head and taken from the tail */
  char *events;    /* STREAM: events */
  char *results;   /* LIST: results, pushed at the head */
  char *inflight;  /* LIST: steps that were taken and have no result yet, the newest at the head */
  char *started;   /* STRING: the stepId of the step that was started and has no result yet */
  char *committed; /* STRING: the fencing token; see delivery/ownership.h */
  char *heartbeat; /* STRING: exists while the agent runs */
  char *control;   /* LIST: control messages, such as cancel, pushed at the head */
};

/* Builds the names, which keys_release frees. Borrows the job id. */
void keys_init(struct keys *self, const char *job_id);
void keys_release(struct keys *self);

/* Returns the key for results of steps with this replyTo, which the caller frees. */
char *keys_reply(const struct keys *self, const char *reply_to);

/* Returns true if this is such a key. */
bool keys_is_reply(const struct keys *self, const char *key, size_t length);

/* The name of a connection in CLIENT LIST: "sandbox:<job>:<role>". */
struct client_name {
  char text[128];
};
struct client_name keys_client_name(const struct keys *self, const char *role);
