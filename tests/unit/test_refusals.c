/*
 * Runs an agent from its start to its end while Redis rejects one of its commands: the first one,
 * the second one, and so on, until no command is left. With each rejected command no step is lost,
 * no step runs twice, and the agent writes only the expected keys. If the rejection ends the agent,
 * the next agent continues the job.
 */

#include "agent/exit_code.h"
#include "tests/support/logged.h"
#include "tests/support/redis_frontend_owner.h"
#include "tests/support/virtual_time.h"
#include "tests/test.h"

#define KEY "sandbox:j:"

/* The steps of an agent: one that an earlier agent has left, one that ends by itself, one that is
   cancelled while it runs, and one that is cancelled while it waits. */
static const char *const ids[] = {"left", "short", "long", "never"};
enum { STEPS = sizeof ids / sizeof *ids };

/* An agent before this one was killed while it ran `left`. */
static void leave_a_job(struct redis_frontend_owner *owner) {
  redis_store_do(owner->store, 3,
                 "LPUSH " KEY
                 "inflight {\"stepId\":\"left\",\"command\":\"false\",\"replyTo\":\"r\"}");
  redis_store_do(owner->store, 3, "SET " KEY "started left");
  redis_store_do(owner->store, 3, "SET " KEY "committed 1:00000000000000ff:7");
  redis_store_do(owner->store, 3, "LPUSH " KEY "results earlier");
  redis_store_do(owner->store, 5, "XADD " KEY "events * data {\"seq\":1,\"stepId\":\"left\"}");
}

/* --- what is true at any time ---------------------------------------------------------------- */

static bool is_outside_of_a_transaction(const char *line) {
  static const char *const allowed[] = {"in BLMOVE ", "heartbeat BLMOVE ",
                                        "heartbeat SET " KEY "heartbeat ",
                                        "heartbeat EXPIRE " KEY "heartbeat "};
  for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
    if (strncmp(line, allowed[i], strlen(allowed[i])) == 0)
      return false;
  return true;
}

/* What the agents have written: the outbox in transactions alone, and nothing of the preflight. */
static void check_written(const struct redis_frontend_owner *owner) {
  bool inside = false;
  for (const char *line = redis_store_executed(owner->store), *end; *line != '\0'; line = end + 1) {
    end = strchr(line, '\n');
    if (strncmp(line, "out MULTI\n", 10) == 0)
      inside = true;
    else if (strncmp(line, "out EXEC\n", 9) == 0)
      inside = false;
    else if (!inside && is_outside_of_a_transaction(line))
      fail_msg("alone: %.*s", (int)(end - line), line);
    else if (end[-1] == ' ' || strstr(line, " MAXLEN 0\n") == end - strlen(" MAXLEN 0"))
      fail_msg("of the preflight: %.*s", (int)(end - line), line);
  }
}

/* --- a life ---------------------------------------------------------------------------------- */

struct life {
  struct redis_frontend_owner *owner;
  int results;      /* that are awaited */
  const char *text; /* so is an event with it */
  size_t number;    /* of the command */
  bool refused;     /* the command was sent */
  bool ended;       /* and its rejection has ended the agent */
};

static bool is_over(const struct life *life) {
  return engine_leaving(life->owner->frontend) != NULL;
}

/* Virtual time is not faster than real time while a command runs, or if the kernel does not list
   children. Otherwise it jumps to the next timer. */
static void keep_pace(void) {
  char children[16];
  int fd = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
  virtual_time_pace_ms = fd < 0 || read(fd, children, sizeof children) > 0;
  if (fd >= 0)
    close(fd);
}

/* Counts in `results` and in the list of the steps with replyTo. */
static int count_results(const struct redis_frontend_owner *owner, const char *text) {
  return frontend_owner_count(owner, "results", text) +
         frontend_owner_count(owner, "results:r", text);
}

static bool has_results_or_is_over(void *context) {
  const struct life *life = context;
  keep_pace();
  return is_over(life) || count_results(life->owner, "\n") >= life->results;
}

/* Or the step was answered before the cancel, as interrupted. */
static bool has_event_or_is_over(void *context) {
  const struct life *life = context;
  return has_results_or_is_over(context) ||
         frontend_owner_count(life->owner, "events", life->text) > 0;
}

static int end_agent(struct redis_frontend_owner *owner) {
  int exit_code = engine_run(owner->engine);
  engine_free(owner->engine);
  owner->frontend->type->free(owner->frontend);
  owner->engine = NULL;
  return exit_code;
}

/* Waits. If the rejection has ended the agent, the next agent replaces it. */
static void await(struct life *life, bool (*condition)(void *context)) {
  struct redis_frontend_owner *owner = life->owner;
  if (!loop_until(&owner->loop, condition, life))
    fail_msg("command %zu: %s", life->number, frontend_owner_story(owner));
  while (is_over(life)) {
    end_agent(owner);
    assert_true(redis_store_injected(owner->store) > 0);
    life->refused = life->ended = true;
    redis_store_inject(owner->store, (struct redis_store_fault){0});
    frontend_owner_make(owner);
    if (!loop_until(&owner->loop, condition, life))
      fail_msg("command %zu, the next agent: %s", life->number, frontend_owner_story(owner));
  }
}

static void await_results(struct life *life, int number) {
  life->results = number;
  await(life, has_results_or_is_over);
}

static void push_script(struct redis_frontend_owner *owner, const char *id, const char *script) {
  char text[256];
  snprintf(text, sizeof text, "echo ran >> $D/%s; %s", id, script);
  frontend_owner_push_script(owner, id, text);
}

/* The connection of the outbox is lost once, and that of the consumer. */
static void live(struct life *life) {
  struct redis_frontend_owner *owner = life->owner;
  await_results(life, 1 + 1);
  frontend_owner_push(owner, "{'stepId':'short','replyTo':'r','command':'sh','args':['-c',"
                             "'echo ran >> $D/short; echo out-of-short']}");
  await_results(life, 1 + 2);
  push_script(owner, "long", "echo out-of-long; exec sleep 1000");
  push_script(owner, "never", "true");
  life->text = "\"line\":\"out-of-long\"";
  life->results = 1 + 3;
  await(life, has_event_or_is_over);
  redis_store_lose(owner->store, "out", false);
  frontend_owner_push_cancel(owner, "never");
  frontend_owner_push_cancel(owner, "long");
  await_results(life, 1 + 4);
  redis_store_lose(owner->store, "in", false);
}

static void await_end(struct life *life) {
  virtual_time_pace_ms = 1;
  LOOP_UNTIL(&life->owner->loop, is_over(life));
}

/* If the rejection ends the agent before the shutdown is removed, the next agent finds the
   shutdown. */
static void leave(struct life *life) {
  struct redis_frontend_owner *owner = life->owner;
  frontend_owner_push(owner, "{'schemaVersion':1,'stepId':'end','kind':'shutdown'}");
  await_end(life);
  int exit_code = end_agent(owner);
  life->refused |= redis_store_injected(owner->store) > 0;
  redis_store_inject(owner->store, (struct redis_store_fault){0});
  if (frontend_owner_count(owner, "inflight", "\n") + frontend_owner_count(owner, "in", "\n") == 0)
    return;
  assert_int_equal(exit_code, AGENT_EXIT_ERROR);
  life->ended = true;
  frontend_owner_make(owner);
  await_end(life);
  assert_int_equal(end_agent(owner), AGENT_EXIT_SHUTDOWN);
}

static int lines_of(const struct redis_frontend_owner *owner, const char *id) {
  char path[128], line[64];
  snprintf(path, sizeof path, "%s/%s", owner->loop.directory.path, id);
  FILE *file = fopen(path, "re");
  int count = 0;
  while (file != NULL && fgets(line, sizeof line, file) != NULL)
    count++;
  if (file != NULL)
    fclose(file);
  return count;
}

static void check_end(const struct life *life) {
  const struct redis_frontend_owner *owner = life->owner;
  frontend_owner_lacks(owner, "in");
  frontend_owner_lacks(owner, "inflight");
  frontend_owner_lacks(owner, "started");
  frontend_owner_has_once(owner, "results", "earlier\n");
  frontend_owner_has_once(owner, "events", "{\"seq\":1,\"stepId\":\"left\"}");
  assert_int_equal(count_results(owner, "\n"), 1 + STEPS);
  for (size_t i = 0; i < STEPS; i++) {
    char text[64];
    snprintf(text, sizeof text, "\"stepId\":\"%s\",\"exitCode\":", ids[i]);
    assert_int_equal(count_results(owner, text), 1);
    assert_in_range(lines_of(owner, ids[i]), 0, 1);
  }
  assert_int_equal(lines_of(owner, "left"), 0); /* the step ran before */
  int least = life->ended ? 0 : 1;
  assert_in_range(frontend_owner_count(owner, "events", "\"line\":\"out-of-short\""), least, 1);
  assert_in_range(frontend_owner_count(owner, "events", "\"line\":\"out-of-long\""), least, 1);
  assert_in_range(count_results(owner, "interrupted: "), 1, 2 - least);
  check_written(owner);
}

/* Returns whether there was a command of this number. */
static bool survives(struct redis_frontend_owner *owner, size_t number, const char *error) {
  struct life life = {.owner = owner, .number = number};
  leave_a_job(owner);
  redis_store_forget_executed(owner->store);
  redis_store_inject(owner->store, (struct redis_store_fault){.command = "",
                                                              .effect = REDIS_STORE_REFUSES,
                                                              .text = error,
                                                              .skip = number - 1,
                                                              .times = 1});
  frontend_owner_make(owner);
  live(&life);
  leave(&life);
  check_end(&life);
  assert_false(life.ended && strncmp(error, "LOADING ", 8) == 0);
  return life.refused;
}

static void survives_every(void **state, const char *error) {
  size_t number = 1;
  while (survives(*state, number, error)) {
    number++;
    frontend_owner_tear_down(state);
    frontend_owner_set_up(state);
  }
  print_message("%zu commands\n", number - 1);
  assert_true(number > 100);
}

TEST(a_permanent_error_of_any_command_loses_no_step, frontend_owner_set_up,
     frontend_owner_tear_down) {
  survives_every(state, "ERR refused by the test");
}

TEST(a_transient_error_of_any_command_loses_no_step, frontend_owner_set_up,
     frontend_owner_tear_down) {
  survives_every(state, "LOADING refused by the test");
}

TEST_OVERLAP(2)
