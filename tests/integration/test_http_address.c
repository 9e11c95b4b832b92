/* What remains of an agent with --http: its address, and what it needs from the process that starts
   it. */

#include "tests/support/http_steps.h"
#include "tests/support/proc.h"
#include "tests/test.h"

/* A supervisor, which is a fork of the agent, closes what it inherits. It has 0 to 2, the socket to
   the agent, and a directory. */
static bool supervisors_have_no_socket(void *context) {
  enum { DESCRIPTORS = 5 };
  const pid_t agent = *(pid_t *)context;
  for (int i = 0; proc_child_of(agent, i) != 0; i++)
    if (proc_fd_count(proc_child_of(agent, i)) > DESCRIPTORS)
      return false;
  return proc_child_of(agent, 0) != 0;
}

/* Kills the agent while a step runs whose stream is read. */
static void kill_agent(struct http_agent *http) {
  struct http_client *client = http_agent_connect(http);
  http_client_send_request(client, "PUT", "/steps/1", "Accept: application/x-ndjson\r\n",
                           quoted("{'command':'sleep','args':['600']}"));
  http_agent_expect_status(http, http_client_begin_response(client), 200);
  assert_non_null(http_client_line(client));
  pid_t agent = agent_process_pid(http->process);
  assert_true(wait_until(supervisors_have_no_socket, &agent, WAIT_BOUND_MS));
  assert_int_equal(kill(agent, SIGKILL), 0);
  assert_int_equal(agent_process_wait(http->process, WAIT_BOUND_MS), -SIGKILL);
  while (http_client_line(client) != NULL)
    ;
  assert_false(http_client_is_whole(client));
  assert_null(http_client_try(http->address));
}

/* The socket file of a killed agent is stale, and its connections over TCP are in TIME_WAIT. */
HTTP_TEST(the_next_agent_listens_at_the_address_of_a_killed_one) {
  for (int i = 0; i < 2; i++) {
    const char *const arguments[] = {"--http", http->address, NULL};
    if (i == 0)
      http_agent_start(http, NULL, NULL);
    else
      http_agent_start_tcp(http, NULL, NULL);
    kill_agent(http);
    struct agent_process *next = agent_process_start(&(struct agent_setup){.arguments = arguments});
    agent_process_wait_log(next, "started: ");
    agent_process_free(next);
  }
}

static void close_standard(const void *context) {
  (void)context;
  close(STDIN_FILENO);
  close(STDOUT_FILENO);
}

HTTP_TEST(the_agent_needs_no_standard_input_and_output) {
  http->setup.prepare = close_standard;
  http_agent_start(http, NULL, NULL);
  const cJSON *result = http_steps_run(http, "1", http_steps_script("echo hello"));
  assert_string_equal(http_steps_text(result, "outputContent"), "hello\n");
  assert_string_equal(agent_process_output(http->process), "");
}

/* The client sends no body, and an agent that waited for one would not answer. */
HTTP_TEST(an_unauthorized_client_is_not_asked_for_its_body) {
  static const char *const expectations[] = {"", "Expect: 100-continue\r\n"};
  const char *const key[] = {"SANDBOX_HTTP_KEY=0123456789abcdef", NULL};
  http_agent_start(http, NULL, key);
  for (size_t i = 0; i < 2; i++) {
    struct http_client *client = http_agent_connect(http);
    http_client_send(client,
                     formatted("PUT /steps/1 HTTP/1.1\r\nHost: a\r\nContent-Length: 50\r\n%s\r\n",
                               expectations[i]));
    http_agent_expect_error(http, http_client_response(client), 401, "unauthorized");
    http_client_expect_closed(client);
  }
}
