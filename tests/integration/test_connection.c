/* The first connection: how a server is named, and the errors if the agent cannot connect. */

#include <arpa/inet.h>
#include <sys/socket.h>

#include "tests/support/job.h"

/* This only stops a test that hangs. It is much shorter than the idle limit. */
enum { AT_ONCE_MS = WAIT_BOUND_MS };

#define PASSWORD "s3cret-Word"

/* Creates the default user's password and three more users; only the first has all permissions. */
static int setup_with_passwords(void **state) {
  static const char *const commands[] = {
      "ACL SETUSER smith on >%s ~* &* +@all",
      "ACL SETUSER clerk on >%s ~* &* +@connection",
      "ACL SETUSER guest on >%s ~other:* &* +@all",
      "CONFIG SET requirepass %s",
  };
  job_setup_server(state);
  struct job *job = *state;
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
    redisReply *reply = redisCommand(job->redis, commands[i], PASSWORD);
    assert_int_equal(reply->type, REDIS_REPLY_STATUS);
    freeReplyObject(reply);
  }
  return 0;
}

static void start(struct job *job, const char *url, const char *const *environment) {
  job->url = url;
  job->setup.environment = environment;
  job_start_agent(job, NULL);
}

static void expect_hello_in(struct job *job, int database) {
  freeReplyObject(redisCommand(job->redis, "SELECT %d", database));
  job_expect_to_go_on(job);
  job_shut_down(job);
}

JOB_TEST_NO_AGENT(the_agent_accepts_each_form_of_address) {
  int port = redis_server_port(job->server);
  const char *socket = redis_server_socket(job->server);
  const char *const urls[] = {
      job_format(job, "redis://127.0.0.1:%d", port), job_format(job, "redis://127.0.0.1:%d/", port),
      job_format(job, "redis://localhost:%d", port), job_format(job, "REDIS://LocalHost:%d", port),
      job_format(job, "127.0.0.1:%d", port),         job_format(job, "localhost:%d", port),
      job_format(job, "unix://%s", socket)};
  for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
    start(job, urls[i], NULL);
    expect_hello_in(job, 0);
  }
}

TEST_WITH(struct job *job, the_agent_accepts_each_form_of_password, setup_with_passwords,
          job_teardown) {
  int port = redis_server_port(job->server);
  const struct {
    const char *url;
    int database;
  } forms[] = {
      {job_format(job, "redis://:%s@127.0.0.1:%d", PASSWORD, port), 0},
      {job_format(job, "redis://smith:%s@127.0.0.1:%d", PASSWORD, port), 0},
      {job_format(job, "redis://smith:%s@localhost:%d/3", PASSWORD, port), 3},
      {job_format(job, "redis://smith:s3cret%%2DWord@localhost:%d/3", port), 3},
      {job_format(job, "127.0.0.1:%d,password=%s", port, PASSWORD), 0},
      {job_format(job, "localhost:%d,user=smith,password=%s,defaultDatabase=5", port, PASSWORD), 5},
      {job_format(job, "localhost:%d,abortConnect=false,defaultDatabase=2,password=%s", port,
                  PASSWORD),
       2}};
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    start(job, forms[i].url, NULL);
    expect_hello_in(job, forms[i].database);
  }
}

JOB_TEST_NO_AGENT(variables_can_replace_the_flags) {
  const char *const environment[] = {job_format(job, "REDIS_URL=%s", job->url),
                                     job_format(job, "JOB_ID=%s", job->id), NULL};
  job->agent = agent_process_start(&(struct agent_setup){.environment = environment});
  expect_hello_in(job, 0);
}

JOB_TEST_NO_AGENT(a_flag_overrides_its_variable) {
  const char *const environment[] = {"REDIS_URL=redis://127.0.0.1:1", "JOB_ID=another", NULL};
  start(job, job->url, environment);
  expect_hello_in(job, 0);
}

/* Reserves a port that nobody listens on. */
static int deaf_socket(int *port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof address;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_true(fd >= 0);
  assert_int_equal(bind(fd, (struct sockaddr *)&address, length), 0);
  assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
  *port = ntohs(address.sin_port);
  return fd;
}

static void expect_end(struct job *job, int bound_ms, const char *reason) {
  int code = agent_process_wait(job->agent, bound_ms);
  if (code != 3)
    job_fail(job, "exit code %d, not 3", code);
  if (strcasestr(agent_process_log(job->agent), reason) == NULL)
    job_fail(job, "the log lacks `%s`", reason);
  assert_null(strstr(agent_process_log(job->agent), PASSWORD));
}

JOB_TEST_NO_AGENT(connect_timeout_bounds_the_wait_for_redis) {
  int port;
  int fd = deaf_socket(&port);
  job->url = job_format(job, "redis://127.0.0.1:%d", port);
  int64_t began = wait_now_ms();
  job_start_agent(job, "--connect-timeout", "2", NULL);
  expect_end(job, WAIT_BOUND_MS, "redis could not be reached within 2 s");
  close(fd);
  assert_true(wait_now_ms() - began >= 2000 - 10); /* timers have ticks of 4 ms */
  const char *refused = job_format(job, "cannot connect to 127.0.0.1:%d: Connection refused", port);
  assert_int_equal(agent_process_count_log(job->agent, refused), 1);
  assert_int_equal(agent_process_count_log(job->agent, "waiting for redis, at most 2 s"), 1);
}

JOB_TEST_NO_AGENT(the_agent_waits_for_a_server_that_starts_later) {
  redis_server_kill(job->server);
  job_start_agent(job, NULL);
  agent_process_wait_log(job->agent, "refused");
  agent_process_wait_log(job->agent, "waiting for redis until the idle limit, 1800 s from now");
  redis_server_restart(job->server);
  job_reconnect(job);
  expect_hello_in(job, 0);
}

JOB_TEST_NO_AGENT(the_log_names_an_unknown_host_or_socket) {
  static const char *const rows[][2] = {
      {"redis://no-such-host.invalid:6379",
       "cannot connect to no-such-host.invalid:6379: cannot resolve the name: "},
      {"unix:///no/such/socket", "cannot connect to /no/such/socket: No such file or directory"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    start(job, rows[i][0], NULL);
    agent_process_wait_log(job->agent, rows[i][1]);
    job_stop_agent(job, SIGTERM);
  }
}

TEST_WITH(struct job *job, a_refused_login_ends_the_agent_at_once, setup_with_passwords,
          job_teardown) {
  static const struct {
    const char *credentials, *reason;
  } rows[] = {{":wrong@", "WRONGPASS"},
              {"smith:wrong@", "WRONGPASS"},
              {"nobody:" PASSWORD "@", "WRONGPASS"},
              {"", "NOAUTH"},
              {"clerk:" PASSWORD "@", "NOPERM"},
              {"guest:" PASSWORD "@", "NOPERM"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    start(job,
          job_format(job, "redis://%s127.0.0.1:%d", rows[i].credentials,
                     redis_server_port(job->server)),
          NULL);
    expect_end(job, AT_ONCE_MS, rows[i].reason);
    assert_null(strstr(agent_process_log(job->agent), "wrong@"));
  }
}

/* Redis closes all connections of the user. */
TEST_WITH(struct job *job, a_deleted_user_is_logged_once, setup_with_passwords, job_teardown) {
  start(job,
        job_format(job, "redis://smith:" PASSWORD "@127.0.0.1:%d", redis_server_port(job->server)),
        NULL);
  job_expect_to_go_on(job);
  job_do(job, "ACL DELUSER smith");
  expect_end(job, WAIT_BOUND_MS, "WRONGPASS");
  assert_int_equal(agent_process_count_log(job->agent, "WRONGPASS"), 1);
}

JOB_TEST_NO_AGENT(a_database_out_of_range_ends_the_agent_at_once) {
  start(job, job_format(job, "%s/99", job->url), NULL);
  expect_end(job, AT_ONCE_MS, "out of range");
}

TEST_OVERLAP(3)
