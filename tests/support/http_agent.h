#pragma once

#include "tests/support/agent_process.h"
#include "tests/support/directory.h"
#include "tests/support/http_client.h"

/*
 * An agent with `--http` on a socket file in the directory of the test.
 *
 *   HTTP_TEST(health_needs_no_key) {
 *     http_agent_start(http, NULL, NULL);
 *     struct http_client *client = http_agent_connect(http);
 *     http_client_send(client, "GET /health HTTP/1.1\r\nHost: a\r\n\r\n");
 *     assert_int_equal(http_client_response(client)->status, 200);
 *   }
 *
 * A test that needs TCP starts it on a port of the loopback with http_agent_start_tcp. The
 * directory is HTTP_DIRECTORY in the environment of the agent and its steps. Agent, connections and
 * files of the directory are gone after the test.
 */
enum { HTTP_AGENT_CLIENTS_MAX = 128 };

struct http_agent {
  struct directory directory;
  struct agent_setup setup;      /* of the next start, without arguments and environment */
  struct agent_process *process; /* NULL: not started */
  char address[96];              /* for http_client_connect */
  struct http_client *clients[HTTP_AGENT_CLIENTS_MAX];
  int client_count;
};

int http_agent_set_up(void **state);
int http_agent_tear_down(void **state);
#define HTTP_TEST(NAME)                                                                            \
  TEST_WITH(struct http_agent *http, NAME, http_agent_set_up, http_agent_tear_down)

/* The same with a limit of the agent's memory, with which a program with sanitizers does not
   start. */
#define HTTP_MEMORY_TEST(NAME)                                                                     \
  TEST_WITH_IF(agent_process_is_shipped(), struct http_agent *http, NAME, http_agent_set_up,       \
               http_agent_tear_down)

/* Starts the agent with these additional arguments and "NAME=value", both NULL-terminated or NULL,
   and waits until it accepts connections. An agent that runs is killed first. */
void http_agent_start(struct http_agent *self, const char *const *arguments,
                      const char *const *environment);
void http_agent_start_tcp(struct http_agent *self, const char *const *arguments,
                          const char *const *environment);

/* The same with another address, which connections use. `arguments` has --http. */
void http_agent_start_at(struct http_agent *self, const char *address, const char *const *arguments,
                         const char *const *environment);

/* The memory of the agent that is resident, in KiB. */
long http_agent_memory_kib(const struct http_agent *self);

/* A new connection, which belongs to self. Close it earlier with http_agent_disconnect. */
struct http_client *http_agent_connect(struct http_agent *self);
void http_agent_disconnect(struct http_agent *self, struct http_client *client);

/* Waits until a file exists in the directory. */
void http_agent_wait_file(struct http_agent *self, const char *name);

/* Fails unless the response has the fields that all responses have, and the status; the second one
   also unless it is {"error":<word>,"message":…}. */
void http_agent_expect_status(struct http_agent *self, const struct http_response *response,
                              int status);
void http_agent_expect_error(struct http_agent *self, const struct http_response *response,
                             int status, const char *word);

/* What is wrong with the response, for tests that report more than one; NULL: nothing. `word` may
   be NULL: any body. The text is valid as long as those of formatted(). */
const char *http_agent_find_fault(const struct http_response *response, int status,
                                  const char *word);

/* The body of GET /steps on a new connection without a newline, to be freed. The second function
   fails the test if there is a step. */
char *http_agent_list_steps(struct http_agent *self);
void http_agent_expect_no_step(struct http_agent *self);

/* Runs step `id`, which waits until the gate of this name is opened, and waits until it runs. */
void http_agent_put_gate(struct http_agent *self, const char *id, const char *gate);
void http_agent_open_gate(struct http_agent *self, const char *gate);
