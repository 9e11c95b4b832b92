#include "tests/support/http_sandbox.h"

#include "tests/test.h"

static const char *program(void) {
  const char *path = getenv("SANDBOX");
  return path == NULL || *path == '\0' ? "build/sandbox" : path;
}

struct agent_process *http_sandbox_start(struct http_agent *http, const char *script) {
  const bool is_path = strncmp(http->address, "unix:", 5) == 0;
  const char *text =
      formatted("export S='%s' U='%s%s' HTTP_DIRECTORY='%s' TERM=xterm; export SANDBOX_URL=$U; "
                "unset NO_COLOR; %s",
                program(), is_path ? "http+unix://" : "http://", http->address + (is_path ? 5 : 0),
                http->directory.path, script);
  const char *const arguments[] = {"-c", text, NULL};
  return agent_process_start(&(struct agent_setup){.program = "/bin/sh", .arguments = arguments});
}

struct awaited {
  struct agent_process *client;
  const char *text;
};

static bool has_output(void *context) {
  const struct awaited *self = context;
  return strstr(agent_process_output(self->client), self->text) != NULL;
}

void http_sandbox_wait_output(struct agent_process *client, const char *text) {
  struct awaited awaited = {client, text};
  if (!wait_until(has_output, &awaited, WAIT_BOUND_MS))
    agent_process_fail(client, "the output has no `%s`: %s", text, agent_process_output(client));
}

void http_sandbox_expect_end(struct agent_process *client, int code, const char *output,
                             const char *errors) {
  const int actual = agent_process_wait(client, WAIT_BOUND_MS);
  if (actual != code)
    agent_process_fail(client, "exit %d, not %d\n%s", actual, code, agent_process_output(client));
  if (output != NULL && strcmp(agent_process_output(client), output) != 0)
    agent_process_fail(client, "wrote `%s`, not `%s`", agent_process_output(client), output);
  if (errors != NULL && strcmp(agent_process_log(client), errors) != 0)
    agent_process_fail(client, "said `%s`, not `%s`", agent_process_log(client), errors);
  agent_process_free(client);
}

void http_sandbox_expect(struct http_agent *http, const char *script, int code, const char *output,
                         const char *errors) {
  http_sandbox_expect_end(http_sandbox_start(http, script), code, output, errors);
}
