/* The client works while a server uses the same job: the server gets each event and result of its
   steps once, while clients run, list, follow and cancel steps. */

#include "tests/support/sandbox_client.h"
#include "tests/test.h"

#define STEPS 40
#define LINES 3

/* A step of the server. */
struct step {
  char id[40];
  int events;  /* how many were read; the seq of the last one */
  int results; /* how many were taken */
};

/* Works like the live server: it reads events with XREAD from the last one on, pops each result
   with RPOP, and discards results that it does not expect. */
struct producer {
  struct job *job;
  struct step steps[STEPS];
  int pushed;
  char cursor[64];
};

static struct step *find_step(struct producer *self, const char *id) {
  for (int i = 0; i < self->pushed; i++)
    if (strcmp(self->steps[i].id, id) == 0)
      return &self->steps[i];
  return NULL;
}

/* Events arrive in order: `started`, the lines, `completed`. */
static void take_event(struct producer *self, const cJSON *event) {
  struct step *step = find_step(self, job_text(event, "stepId"));
  const char *kind = "started", *line = "sh";
  char text[32];
  if (step == NULL)
    return;
  assert_int_equal(job_number(event, "seq"), ++step->events);
  if (step->events > 1 && step->events <= LINES + 1) {
    kind = "stdout";
    snprintf(text, sizeof text, "%d of %d", step->events - 1, (int)(step - self->steps));
    line = text;
  } else if (step->events > 1) {
    kind = "completed";
    snprintf(text, sizeof text, "exit=%d timedOut=False", (int)(step - self->steps) % 5);
    line = text;
  }
  assert_string_equal(job_text(event, "kind"), kind);
  assert_string_equal(job_text(event, "line"), line);
}

static void read_events(struct producer *self) {
  redisReply *reply = job_ask(self->job, "XREAD COUNT 200 STREAMS sandbox:%s:events %s",
                              self->job->id, self->cursor);
  if (reply->type == REDIS_REPLY_ARRAY) {
    const redisReply *entries = reply->element[0]->element[1];
    for (size_t i = 0; i < entries->elements; i++) {
      const redisReply *entry = entries->element[i];
      snprintf(self->cursor, sizeof self->cursor, "%s", entry->element[0]->str);
      take_event(self, job_own(self->job, cJSON_Parse(entry->element[1]->element[1]->str)));
    }
  }
  freeReplyObject(reply);
}

static void take_results(struct producer *self) {
  for (bool more = true; more;) {
    redisReply *reply = job_ask(self->job, "RPOP sandbox:%s:results", self->job->id);
    more = reply->type == REDIS_REPLY_STRING;
    const cJSON *result = more ? job_own(self->job, cJSON_Parse(reply->str)) : NULL;
    struct step *step = more ? find_step(self, job_text(result, "stepId")) : NULL;
    if (step != NULL) {
      step->results++;
      assert_int_equal(job_number(result, "exitCode"), (int)(step - self->steps) % 5);
    }
    freeReplyObject(reply);
  }
}

static void push_step(struct producer *self) {
  const int number = self->pushed++;
  cJSON *json =
      job_script(self->job, job_format(self->job, "for i in 1 2 3; do echo $i of %d; done; exit %d",
                                       number, number % 5));
  snprintf(self->steps[number].id, sizeof self->steps[number].id, "%s", job_text(json, "stepId"));
  job_push(self->job, json);
}

static bool has_result(void *context) {
  struct producer *self = context;
  read_events(self);
  take_results(self);
  return self->steps[self->pushed - 1].results > 0;
}

/* --- the clients ------------------------------------------------------------------------------ */

/* Repeats the body until the file exists, at least twice, and reports the round that failed. */
#define ROUND(BODY)                                                                                \
  "n=0; until [ -e $OVER ] && [ $n -ge 2 ]; do " BODY                                              \
  " || { echo \"round $n: exit $?\" >&2; exit 1; }; n=$((n+1)); done"

static const char *const rounds[] = {
    ROUND("[ \"$($S run -c 'echo mine; exit 7'; echo $?)\" = \"$(printf 'mine\\n7')\" ]"),
    ROUND("[ \"$($S run -- echo mine)\" = mine ]"),
    /* doctor waits 3 s for an answer, which a busy machine may take. */
    ROUND("{ $S ps && $S ps --json && $S jobs && $S top; } > /dev/null && { s=$(date +%s); "
          "$S doctor > /dev/null || [ $(($(date +%s) - s)) -ge 3 ]; }"),
    ROUND("{ timeout -s INT --preserve-status 0.3 $S follow --all -n 3 > /dev/null 2>&1; [ $? = "
          "130 ]; "
          "}"),
    /* If the server has popped the result, it is unknown that the step was cancelled. */
    ROUND("{ id=$(cat /proc/sys/kernel/random/uuid); $S run --id $id -- sleep 60 2> /dev/null & "
          "p=$!; "
          "until $S ps --json | grep -q $id; do :; done; $S cancel $id 2> /dev/null; wait $p; "
          "c=$?; [ $c = 130 ] || [ $c = 125 ]; }"),
};
#define CLIENTS (sizeof rounds / sizeof *rounds)

static void expect_good_end(struct job *job, struct agent_process *client) {
  if (agent_process_wait(client, WAIT_BOUND_MS) != 0)
    job_fail(job, "a client: %s%s", agent_process_output(client), agent_process_log(client));
  agent_process_free(client);
}

JOB_TEST(a_server_gets_each_event_and_result_of_its_steps_once) {
  struct producer *server = calloc(1, sizeof *server);
  struct agent_process *clients[CLIENTS];
  assert_non_null(server);
  server->job = job;
  strcpy(server->cursor, "0-0");
  for (size_t i = 0; i < CLIENTS; i++) {
    clients[i] = sandbox_start(
        job, job_format(job, "export OVER='%s'; %s", job_path(job, "over"), rounds[i]));
  }
  while (server->pushed < STEPS) {
    push_step(server);
    assert_true(wait_until(has_result, server, WAIT_BOUND_MS));
  }
  (void)job_write(job, "over", "", 0644);
  for (size_t i = 0; i < CLIENTS; i++)
    expect_good_end(job, clients[i]);
  read_events(server);
  take_results(server);
  for (int i = 0; i < STEPS; i++) {
    assert_int_equal(server->steps[i].events, LINES + 2);
    assert_int_equal(server->steps[i].results, 1);
  }
  free(server);
  job_expect_nothing_left(job);
}
