#include "tests/support/http_agent.h"

#include <cjson/cJSON.h>

#include "tests/support/gate.h"
#include "tests/support/proc.h"
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

/* Returns false if the agent could not listen. `listens`: on the address of self, else as its
   arguments say. */
static bool launch(struct http_agent *self, bool listens, const char *const *arguments,
                   const char *const *environment) {
  const char *words[24] = {NULL};
  const char *variables[24] = {formatted("HTTP_DIRECTORY=%s", self->directory.path)};
  size_t count = 0;
  if (listens) {
    words[count++] = "--http";
    words[count++] = self->address;
  }
  for (size_t i = 0; arguments != NULL && arguments[i] != NULL && i < 20; i++)
    words[count++] = arguments[i];
  for (size_t i = 0; environment != NULL && environment[i] != NULL && i < 20; i++)
    variables[1 + i] = environment[i];
  struct agent_setup setup = self->setup;
  setup.arguments = words;
  setup.environment = variables;
  self->process = agent_process_start(&setup);
  if (!wait_until(accepts_or_ended, self, WAIT_BOUND_MS))
    agent_process_fail(self->process, "the agent does not accept connections");
  return agent_process_is_running(self->process);
}

void http_agent_start(struct http_agent *self, const char *const *arguments,
                      const char *const *environment) {
  stop(self);
  snprintf(self->address, sizeof self->address, "unix:%s",
           directory_path(&self->directory, "agent.sock"));
  if (!launch(self, true, arguments, environment))
    agent_process_fail(self->process, "the agent has ended");
}

void http_agent_start_tcp(struct http_agent *self, const char *const *arguments,
                          const char *const *environment) {
  for (int attempt = 0; attempt < 5; attempt++) {
    stop(self);
    snprintf(self->address, sizeof self->address, "127.0.0.1:%d", redis_server_free_port());
    if (launch(self, true, arguments, environment))
      return;
  }
  agent_process_fail(self->process, "the agent has ended");
}

long http_agent_memory_kib(const struct http_agent *self) {
  return proc_status_kib(agent_process_pid(self->process), "VmRSS");
}

void http_agent_start_at(struct http_agent *self, const char *address, const char *const *arguments,
                         const char *const *environment) {
  stop(self);
  snprintf(self->address, sizeof self->address, "%s", address);
  if (!launch(self, false, arguments, environment))
    agent_process_fail(self->process, "the agent has ended");
}

struct http_client *http_agent_connect(struct http_agent *self) {
  struct http_client *client = http_client_connect(self->address);
  assert_true(self->client_count < HTTP_AGENT_CLIENTS_MAX);
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

/* --- responses -------------------------------------------------------------------------------- */

static bool is_instance(const char *value) {
  return value != NULL && strlen(value) >= 16 && strspn(value, "0123456789abcdef") == strlen(value);
}

static bool is_error(const struct http_response *response, const char *word) {
  cJSON *error = cJSON_Parse(response->body);
  const char *name = cJSON_GetStringValue(cJSON_GetObjectItem(error, "error"));
  const char *message = cJSON_GetStringValue(cJSON_GetObjectItem(error, "message"));
  bool is_valid = name != NULL && strcmp(name, word) == 0 && message != NULL && *message != '\0' &&
                  cJSON_GetArraySize(error) == 2;
  cJSON_Delete(error);
  return is_valid;
}

static bool has_value(const struct http_response *response, const char *name, const char *value) {
  const char *found = http_response_field(response, name);
  return found != NULL && strcmp(found, value) == 0;
}

const char *http_agent_find_fault(const struct http_response *response, int status,
                                  const char *word) {
  if (response->status != status)
    return formatted("status %d instead of %d: %s", response->status, status, response->body);
  if (!is_instance(http_response_field(response, "Sandbox-Instance")))
    return "no valid Sandbox-Instance";
  if (!has_value(response, "Cache-Control", "no-store"))
    return "no Cache-Control: no-store";
  if (!has_value(response, "X-Content-Type-Options", "nosniff"))
    return "no X-Content-Type-Options: nosniff";
  if (strcasestr(response->head, "Access-Control") != NULL)
    return "a field Access-Control";
  if (word != NULL && !has_value(response, "Content-Type", "application/json"))
    return "no Content-Type: application/json";
  if (word != NULL && !is_error(response, word))
    return formatted("not the error %s: %s", word, response->body);
  return NULL;
}

void http_agent_expect_status(struct http_agent *self, const struct http_response *response,
                              int status) {
  http_agent_expect_error(self, response, status, NULL);
}

void http_agent_expect_error(struct http_agent *self, const struct http_response *response,
                             int status, const char *word) {
  const char *fault = http_agent_find_fault(response, status, word);
  if (fault != NULL)
    agent_process_fail(self->process, "%s\n%s%s", fault, response->head, response->body);
}

char *http_agent_list_steps(struct http_agent *self) {
  struct http_client *client = http_client_connect(self->address);
  const struct http_response *response = http_client_request(client, "GET", "/steps", NULL, NULL);
  http_agent_expect_status(self, response, 200);
  char *body = strndup(response->body, strcspn(response->body, "\n"));
  assert_non_null(body);
  http_client_free(client);
  return body;
}

void http_agent_expect_no_step(struct http_agent *self) {
  char *steps = http_agent_list_steps(self);
  if (strcmp(steps, "{\"steps\":[]}") != 0)
    agent_process_fail(self->process, "there are steps: %s", steps);
  free(steps);
}

/* --- steps ------------------------------------------------------------------------------------ */

void http_agent_put_gate(struct http_agent *self, const char *id, const char *gate) {
  struct http_client *client = http_client_connect(self->address);
  const char *begun = formatted("%s-begun", gate);
  const char *step = formatted("{\"command\":\"sh\",\"args\":[\"-c\",\"cd $HTTP_DIRECTORY; "
                               ": >%s; " GATE("%s") "\"]}",
                               begun, gate, gate);
  http_agent_expect_status(
      self, http_client_request(client, "PUT", formatted("/steps/%s", id), NULL, step), 202);
  http_client_free(client);
  http_agent_wait_file(self, begun);
}

void http_agent_open_gate(struct http_agent *self, const char *gate) {
  gate_open(directory_path(&self->directory, gate));
}
