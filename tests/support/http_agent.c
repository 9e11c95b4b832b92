#include "tests/support/http_agent.h"

#include "tests/support/redis_server.h"
#include "tests/test.h"

int http_agent_set_up(void **state) {
  struct http_agent *self = calloc(1, sizeof *self);
  assert_non_null(self);
  directory_init(&self->directory);
  *state = self;
  return 0;
}

static void stop(struct http_agent *self) {
  for (int i = 0; i < self->client_count; i++)
    http_client_free(self->clients[i]);
  self->client_count = 0;
  agent_process_free(self->process);
  self->process = NULL;
}

int http_agent_tear_down(void **state) {
  struct http_agent *self = *state;
  stop(self);
  directory_release(&self->directory);
  free(self);
  return 0;
}

static bool accepts_or_ended(void *context) {
  struct http_agent *self = context;
  struct http_client *client = http_client_try(self->address);
  bool accepts = client != NULL;
  http_client_free(client);
  return accepts || !agent_process_is_running(self->process);
}

/* Returns false if the agent could not listen. */
static bool launch(struct http_agent *self, const char *const *arguments,
                   const char *const *environment) {
  const char *words[24] = {"--http", self->address};
  const char *variables[24] = {formatted("HTTP_DIRECTORY=%s", self->directory.path)};
  for (size_t i = 0; arguments != NULL && arguments[i] != NULL && i < 20; i++)
    words[2 + i] = arguments[i];
  for (size_t i = 0; environment != NULL && environment[i] != NULL && i < 20; i++)
    variables[1 + i] = environment[i];
  self->process =
      agent_process_start(&(struct agent_setup){.arguments = words, .environment = variables});
  if (!wait_until(accepts_or_ended, self, WAIT_BOUND_MS))
    agent_process_fail(self->process, "the agent does not accept connections");
  return agent_process_is_running(self->process);
}

void http_agent_start(struct http_agent *self, const char *const *arguments,
                      const char *const *environment) {
  stop(self);
  snprintf(self->address, sizeof self->address, "unix:%s",
           directory_path(&self->directory, "agent.sock"));
  if (!launch(self, arguments, environment))
    agent_process_fail(self->process, "the agent has ended");
}

void http_agent_start_tcp(struct http_agent *self, const char *const *arguments,
                          const char *const *environment) {
  for (int attempt = 0; attempt < 5; attempt++) {
    stop(self);
    snprintf(self->address, sizeof self->address, "127.0.0.1:%d", redis_server_free_port());
    if (launch(self, arguments, environment))
      return;
  }
  agent_process_fail(self->process, "the agent has ended");
}

struct http_client *http_agent_connect(struct http_agent *self) {
  struct http_client *client = http_client_connect(self->address);
  assert_true(self->client_count < (int)(sizeof self->clients / sizeof *self->clients));
  self->clients[self->client_count++] = client;
  return client;
}

void http_agent_disconnect(struct http_agent *self, struct http_client *client) {
  for (int i = 0; i < self->client_count; i++)
    if (self->clients[i] == client) {
      self->clients[i] = self->clients[--self->client_count];
      http_client_free(client);
      return;
    }
  fail_msg("this connection does not belong to the agent");
}

struct file_query {
  const struct directory *directory;
  const char *name;
};

static bool has_file(void *context) {
  const struct file_query *query = context;
  return directory_has(query->directory, query->name);
}

void http_agent_wait_file(struct http_agent *self, const char *name) {
  if (!wait_until(has_file, &(struct file_query){&self->directory, name}, WAIT_BOUND_MS))
    agent_process_fail(self->process, "there is no file %s", name);
}
