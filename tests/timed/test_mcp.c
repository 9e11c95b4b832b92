/* The promises of `agent --mcp` in milliseconds. */

#include "tests/support/machine_clock.h"
#include "tests/support/mcp_client.h"
#include "tests/support/proc.h"
#include "tests/test.h"

/* The best of several attempts counts: the first one also loads code from the disk, and a busy
   machine may interrupt any of them. */
enum { ATTEMPTS = 25 };

/* Fails unless one of the attempts takes at most this long. */
static void expect_at_most(struct mcp_client *client, const char *what,
                           double (*measure)(struct mcp_client *), double most) {
  double took_ms = measure(client);
  for (int i = 1; i < ATTEMPTS && took_ms > most; i++) {
    double again_ms = measure(client);
    took_ms = again_ms < took_ms ? again_ms : took_ms;
  }
  print_message("%s: %.3f ms\n", what, took_ms);
  assert_true(took_ms <= most);
}

static void end(struct mcp_client *client) {
  mcp_client_end_input(client);
  assert_int_equal(mcp_client_exit(client), 0);
}

static double start_to_initialized(struct mcp_client *client) {
  double start_ms = machine_clock_ms();
  mcp_client_start(client, NULL, NULL);
  mcp_client_initialize(client, "2025-11-25");
  double took_ms = machine_clock_ms() - start_ms;
  end(client);
  return took_ms;
}

enum { PINGS = 10000 };

/* Another process writes, so that neither waits for the other. */
static double ten_thousand_pings(struct mcp_client *client) {
  mcp_client_start(client, NULL, NULL);
  mcp_client_sync(client);
  double start_ms = machine_clock_ms();
  pid_t writer = fork();
  assert_true(writer >= 0);
  if (writer == 0) {
    FILE *out = fdopen(client->host->in, "w");
    for (int i = 0; i < PINGS; i++)
      fprintf(out, "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"ping\"}\n", i);
    _exit(fclose(out) == 0 ? 0 : 1);
  }
  for (int i = 0; i < PINGS; i++)
    mcp_client_expect(client, formatted("{'jsonrpc':'2.0','id':%d,'result':{}}", i));
  double took_ms = machine_clock_ms() - start_ms;
  assert_int_equal(waitpid(writer, NULL, 0), writer);
  end(client);
  return took_ms;
}

enum { WAITING = 30000, CANCELS = 300 };

/* The ids have escapes, so that they are not compared byte by byte; no call has the id of a
   cancel. */
static double ping_behind_cancels(struct mcp_client *client) {
  mcp_client_start(client, NULL, NULL);
  for (int i = 0; i < WAITING; i++)
    mcp_client_send(client, formatted("{'jsonrpc':'2.0','id':'\\u0061%d','method':'tools/call',"
                                      "'params':{'name':'execute_command','arguments':{"
                                      "'command':'sleep 600.064'}}}",
                                      i));
  mcp_client_sync(client);
  double start_ms = machine_clock_ms();
  for (int i = 0; i < CANCELS; i++)
    mcp_client_send(client, formatted("{'jsonrpc':'2.0','method':'notifications/cancelled',"
                                      "'params':{'requestId':'\\u0062%d'}}",
                                      i));
  mcp_client_sync(client);
  double took_ms = machine_clock_ms() - start_ms;
  proc_kill_tree(client->host->pid); /* the client does not read the 30,000 answers */
  assert_int_equal(waitpid(client->host->pid, NULL, 0), client->host->pid);
  client->host->pid = 0;
  return took_ms;
}

static double one_call(struct mcp_client *client) {
  double start_ms = machine_clock_ms();
  mcp_client_call(client, 1, "true", false);
  mcp_client_expect_part(client, "'id':1,");
  return machine_clock_ms() - start_ms;
}

/* `server & echo ok`: a background process holds the output for 0.1 s only. */
static double background_call(struct mcp_client *client) {
  double start_ms = machine_clock_ms();
  mcp_client_call(client, 1, "sleep 600.061 & echo ok", false);
  mcp_client_expect_part(client, "'text':'ok'");
  return machine_clock_ms() - start_ms;
}

MCP_TEST(a_call_is_answered_in_time) {
  expect_at_most(client, "a call of true", one_call, 20);
  expect_at_most(client, "a call that leaves a process", background_call, 250);
}

/* --- progress --------------------------------------------------------------------------------- */

/* In whole milliseconds, because 0.757 + 0.25 is more than 1.007 in binary fractions. */
static long progress_ms(const char *line) {
  const char *found = strstr(line, "\"progress\":");
  long seconds = 0, ms = 0;
  assert_non_null(found);
  assert_int_equal(sscanf(found, "\"progress\":%ld.%3ld", &seconds, &ms), 2);
  return seconds * 1000 + ms;
}

MCP_TEST(progress_starts_after_half_a_second_and_comes_four_times_a_second) {
  double start_ms = wait_exact_ms(), start_machine_ms = machine_clock_ms();
  mcp_client_call(client, 1, "while :; do echo $((i+=1)); sleep 0.01; done", true);
  long before_ms = 0;
  for (int i = 0; i < 9; i++) {
    long reported_ms = progress_ms(mcp_client_expect_part(client, "notifications/progress"));
    assert_true(reported_ms >= (i == 0 ? 500 : before_ms + 250));
    before_ms = reported_ms;
  }
  print_message("nine reports: %.3f ms\n", wait_exact_ms() - start_ms);
  assert_true(wait_exact_ms() - start_ms >= 2500);
  assert_true(machine_clock_ms() - start_machine_ms <= 3500);
}

MCP_TEST(progress_comes_every_five_seconds_without_output) {
  double start_ms = machine_clock_ms();
  mcp_client_call(client, 1, "sleep 600.062", true);
  long first_ms = progress_ms(mcp_client_expect_part(client, "notifications/progress"));
  double read_ms = machine_clock_ms();
  long second_ms = progress_ms(mcp_client_expect_part(client, "notifications/progress"));
  print_message("reports after %ld and %ld ms\n", first_ms, second_ms);
  assert_true(first_ms >= 500 && read_ms - start_ms <= 1000);
  assert_true(second_ms >= first_ms + 5000 && machine_clock_ms() - read_ms <= 5600);
}

/* --- the end ---------------------------------------------------------------------------------- */

static double idle_end(struct mcp_client *client) {
  mcp_client_start(client, NULL, NULL);
  mcp_client_sync(client);
  double start_ms = machine_clock_ms();
  end(client);
  return machine_clock_ms() - start_ms;
}

/* Ignores SIGTERM, as does the shell that waits for it. */
static const char stubborn[] = "trap : TERM; touch up; while :; do sleep 600.063; done";

static void start_stubborn(struct mcp_client *client) {
  mcp_client_start(client, NULL, NULL);
  mcp_client_call(client, 1, stubborn, false);
  mcp_client_await_file(client, "up");
  assert_int_equal(unlink(directory_path(&client->directory, "up")), 0);
}

/* A second for the call, and half a second after SIGTERM. */
static double busy_end(struct mcp_client *client) {
  start_stubborn(client);
  double start_ms = wait_exact_ms(), start_machine_ms = machine_clock_ms();
  end(client);
  assert_true(wait_exact_ms() - start_ms >= 1000);
  return machine_clock_ms() - start_machine_ms;
}

/* The client does not read the 10 MB of answers. */
static double unread_end(struct mcp_client *client) {
  mcp_client_start(client, NULL, NULL);
  for (int i = 0; i < 1300; i++)
    mcp_client_send(client, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}");
  double start_ms = wait_exact_ms(), start_machine_ms = machine_clock_ms();
  mcp_client_end_input(client);
  assert_true(proc_wait_pid_gone(client->host->pid, WAIT_BOUND_MS));
  double took_ms = machine_clock_ms() - start_machine_ms;
  assert_true(wait_exact_ms() - start_ms >= 1000);
  char rest[65536];
  while (read(client->host->out, rest, sizeof rest) > 0)
    continue;
  assert_int_equal(mcp_client_exit(client), 3); /* output was lost */
  return took_ms;
}

static double idle_signal(struct mcp_client *client) {
  mcp_client_start(client, NULL, NULL);
  mcp_client_sync(client);
  double start_ms = machine_clock_ms();
  assert_int_equal(kill(client->host->pid, SIGTERM), 0);
  assert_int_equal(mcp_client_exit(client), 128 + SIGTERM);
  return machine_clock_ms() - start_ms;
}

static double busy_signal(struct mcp_client *client) {
  start_stubborn(client);
  double start_ms = machine_clock_ms();
  assert_int_equal(kill(client->host->pid, SIGTERM), 0);
  assert_int_equal(mcp_client_exit(client), 128 + SIGTERM);
  return machine_clock_ms() - start_ms;
}

static double gone_reader(struct mcp_client *client) {
  start_stubborn(client);
  double start_ms = machine_clock_ms();
  close(client->host->out);
  client->host->out = -1;
  assert_int_equal(mcp_client_exit(client), 0);
  return machine_clock_ms() - start_ms;
}

MCP_TEST(the_server_starts_answers_and_exits_in_time) {
  static const struct {
    const char *what;
    double (*measure)(struct mcp_client *);
    double most_ms;
  } rows[] = {
      {"from fork to the answer to initialize", start_to_initialized, 10},
      {"10,000 pings", ten_thousand_pings, 1000},
      {"a ping behind 300 cancels, beside 30,000 calls that wait", ping_behind_cancels, 200},
      {"from the end of the input to the exit, idle", idle_end, 200},
      {"from the end of the input to the exit, busy", busy_end, 2000},
      {"from the end of the input to the exit, output not read", unread_end, 2000},
      {"from SIGTERM to the exit, idle", idle_signal, 200},
      {"from SIGTERM to the exit, busy", busy_signal, 1000},
      {"from the end of the output to the exit, busy", gone_reader, 1000}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    expect_at_most(client, rows[i].what, rows[i].measure, rows[i].most_ms);
}

/* SIGTERM, then SIGKILL after two seconds, and no output of the call afterwards. */
MCP_TEST(a_cancel_waits_two_seconds_for_a_command) {
  mcp_client_call(client, 1,
                  "trap `` TERM; sleep 600.065 & while :; do echo $((i+=1)); sleep 0.05; done",
                  true);
  mcp_client_expect_part(client, "notifications/progress");
  double start_ms = wait_timer_ms(), start_machine_ms = machine_clock_ms();
  mcp_client_send(client, "{'jsonrpc':'2.0','method':'notifications/cancelled','params':{"
                          "'requestId':1}}");
  mcp_client_sync(client);
  int reports = mcp_client_count(client, "notifications/progress");
  assert_true(proc_wait_gone("sleep 600.065", WAIT_BOUND_MS));
  print_message("cancelled: gone after %.3f ms\n", wait_exact_ms() - start_ms);
  assert_true(wait_exact_ms() - start_ms >= 2000);
  assert_true(machine_clock_ms() - start_machine_ms <= 3000);
  end(client);
  assert_int_equal(mcp_client_count(client, "'id':1,"), 0);
  assert_int_equal(mcp_client_count(client, "notifications/progress"), reports);
}
