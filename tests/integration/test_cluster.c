/* A Redis Cluster of three nodes: the URL may name any of them, and the job may move. */

#include "tests/support/job.h"
#include "tests/support/marks.h"
#include "tests/support/redis_cluster.h"

#define JOB_ID "{pipe-42}"

struct scene {
  struct redis_cluster *cluster;
  struct job *job;
  int owner; /* the node that has the job */
};

/* The test's own connection does not follow the job by itself. */
static void look_for_job(struct scene *scene) {
  struct job *job = scene->job;
  scene->owner = redis_cluster_owner(scene->cluster, JOB_ID);
  redisFree(job->redis);
  job->redis = redis_server_connect(redis_cluster_node(scene->cluster, scene->owner));
}

/* Names the node that is `further` nodes after the job's node. */
static void name_node(struct scene *scene, int further) {
  int number = (scene->owner + further) % REDIS_CLUSTER_NODES;
  job_use_port(scene->job, redis_server_port(redis_cluster_node(scene->cluster, number)));
}

static int set_up(void **state) {
  struct scene *scene = calloc(1, sizeof *scene);
  assert_non_null(scene);
  *state = scene;
  scene->cluster = redis_cluster_start();
  scene->job = job_new(redis_cluster_node(scene->cluster, 0));
  snprintf(scene->job->id, sizeof scene->job->id, "%s", JOB_ID);
  look_for_job(scene);
  name_node(scene, 1);
  return 0;
}

static int tear_down(void **state) {
  struct scene *scene = *state;
  scene->job->server = NULL; /* the cluster's */
  job_free(scene->job);
  redis_cluster_stop(scene->cluster);
  free(scene);
  return 0;
}

/* The heartbeat's connection is also at the job's node. */
static void expect_heartbeat(struct job *job) {
  job_wait_text(job, "CLIENT LIST", job_format(job, "name=sandbox:%s:heartbeat ", job->id));
  assert_int_equal(job_ask_number(job, "EXISTS sandbox:%s:heartbeat", job->id), 1);
}

TEST_WITH(struct scene *scene, the_url_may_name_any_node, set_up, tear_down) {
  for (int further = 0; further < REDIS_CLUSTER_NODES; further++) {
    name_node(scene, further);
    job_start_agent(scene->job, "--verbose", NULL);
    job_expect_to_go_on(scene->job);
    expect_heartbeat(scene->job);
    job_shut_down(scene->job);
    const char *log = agent_process_log(scene->job->agent);
    if ((strstr(log, " redirected to 127.0.0.1:") != NULL) != (further > 0))
      job_fail(scene->job, "moved, or did not, from node %d behind the owner", further);
    if (strstr(log, "WARN") != NULL)
      job_fail(scene->job, "a redirection is logged as a warning");
  }
}

/* Counts until the gate exists, ten lines at a time. */
static cJSON *counting_step(struct job *job) {
  return job_script(job, job_format(job,
                                    "i=0; until [ -e %s ]; do"
                                    "  for n in 1 2 3 4 5 6 7 8 9 10; do"
                                    "    i=$((i + 1)); echo $i;"
                                    "  done; sleep 0.01; "
                                    "done; echo end $i",
                                    job_path(job, "gate")));
}

/* The lines are 1, 2, 3 … n, and `end n`, each once and in order. */
static void expect_count(struct job *job, const char *lines) {
  long next = 1;
  for (char *end; *lines >= '0' && *lines <= '9'; next++) {
    if (strtol(lines, &end, 10) != next || *end != '\n')
      job_fail(job, "%.20s comes where %ld should", lines, next);
    lines = end + 1;
  }
  assert_string_equal(lines, job_format(job, "end %ld\n", next - 1));
}

struct growth {
  struct job *job;
  long long least;
};

static bool has_grown(void *context) {
  const struct growth *growth = context;
  redisReply *reply = redisCommand(growth->job->redis, "XLEN sandbox:%s:events", JOB_ID);
  bool grown =
      reply != NULL && reply->type == REDIS_REPLY_INTEGER && reply->integer >= growth->least;
  freeReplyObject(reply);
  return grown;
}

static void wait_for_events(struct job *job, long long more) {
  struct growth growth = {.job = job};
  growth.least = job_ask_number(job, "XLEN sandbox:%s:events", JOB_ID) + more;
  if (!wait_until(has_grown, &growth, WAIT_BOUND_MS))
    job_fail(job, "no more events arrive");
}

/* Moves the slot as redis-cli does. The output of the step waits meanwhile, and then goes to the
   new node. */
TEST_WITH(struct scene *scene, a_step_continues_while_its_job_moves_to_another_node, set_up,
          tear_down) {
  struct job *job = scene->job;
  job_start_agent(job, "--verbose", "--events-maxlen", "0", NULL);
  job_expect_to_go_on(job);
  const cJSON *step = counting_step(job);
  job_push_until(job, step, "1");
  static const char *const first[] = {"sandbox:" JOB_ID ":events", "sandbox:" JOB_ID ":committed"};
  for (int round = 0; round < 2; round++) {
    int to = (scene->owner + 1) % REDIS_CLUSTER_NODES;
    redis_cluster_begin_move(scene->cluster, JOB_ID, to);
    assert_true(redis_cluster_move_key(scene->cluster, first[round]));
    /* Now each node has some of the keys. */
    int port = redis_server_port(redis_cluster_node(scene->cluster, to));
    agent_process_wait_log(job->agent, job_format(job, " 127.0.0.1:%d; reconnecting", port));
    while (redis_cluster_move_key(scene->cluster, NULL))
      continue;
    redis_cluster_end_move(scene->cluster);
    look_for_job(scene);
    wait_for_events(job, 100);
  }
  marks_open_gate(job, "");
  const cJSON *result = job_result(job);
  assert_int_equal(cJSON_GetObjectItem(result, "exitCode")->valueint, 0);
  expect_count(job, job_lines(job, step, "stdout"));
  job_expect_to_go_on(job);
  job_shut_down(job);
}

static void move_job(struct scene *scene) {
  redis_cluster_begin_move(scene->cluster, JOB_ID, (scene->owner + 1) % REDIS_CLUSTER_NODES);
  while (redis_cluster_move_key(scene->cluster, NULL))
    continue;
  redis_cluster_end_move(scene->cluster);
  look_for_job(scene);
}

/* A move may happen while a step is taken, started or answered. */
TEST_WITH(struct scene *scene, steps_run_once_while_their_queue_moves, set_up, tear_down) {
  enum { STEPS = 60, MOVES = 6 };
  struct job *job = scene->job;
  job_start_agent(job, NULL);
  job_expect_to_go_on(job);
  const cJSON *steps[STEPS];
  for (int i = 0; i < STEPS; i++) {
    steps[i] = job_script(job, job_format(job, "sleep 0.02; echo %d", i));
    job_push(job, steps[i]);
  }
  for (int i = 0; i < MOVES; i++) {
    job_wait_event(job, steps[i * STEPS / MOVES], "stdout",
                   job_format(job, "%d", i * STEPS / MOVES));
    move_job(scene);
  }
  for (int i = 0; i < STEPS; i++) {
    job_expect_answer(job, steps[i], 0, NULL, job_format(job, "%d\n", i));
    assert_string_equal(job_lines(job, steps[i], "stdout"), job_format(job, "%d\n", i));
  }
  job_expect_to_go_on(job); /* there are no others */
  job_shut_down(job);
}

/* A BLMOVE waits at the node that the slot leaves. */
TEST_WITH(struct scene *scene, an_idle_agent_follows_its_job, set_up, tear_down) {
  struct job *job = scene->job;
  job_start_agent(job, "--verbose", NULL);
  job_expect_to_go_on(job);
  for (int round = 0; round < REDIS_CLUSTER_NODES; round++) {
    move_job(scene);
    job_expect_to_go_on(job);
  }
  job_shut_down(job);
}

/* A result whose acknowledgement was lost with the node arrives again. */
static void expect_hello_behind_others(struct job *job) {
  const cJSON *step = job_step(job, "echo", "hello again", NULL);
  job_push(job, step);
  const cJSON *result;
  do
    result = job_result(job);
  while (strcmp(job_text(result, "stepId"), job_text(step, "stepId")) != 0);
  job_expect_result(job, result, 0, NULL, "hello again\n");
}

TEST_WITH(struct scene *scene, the_agent_reconnects_to_a_restarted_node, set_up, tear_down) {
  struct job *job = scene->job;
  job_start_agent(job, "--verbose", NULL);
  job_expect_to_go_on(job);
  struct redis_server *node = redis_cluster_node(scene->cluster, scene->owner);
  redis_server_kill(node);
  agent_process_wait_log(job->agent, "cannot connect to");
  redis_server_restart(node);
  redis_cluster_wait(scene->cluster);
  look_for_job(scene);
  expect_hello_behind_others(job);
  job_shut_down(job);
}

TEST_WITH(struct scene *scene, a_job_id_without_braces_is_rejected_at_once, set_up, tear_down) {
  struct job *job = scene->job;
  snprintf(job->id, sizeof job->id, "pipe-42");
  for (int further = 0; further < REDIS_CLUSTER_NODES; further++) {
    name_node(scene, further);
    job_start_agent(job, NULL);
    int code = agent_process_wait(job->agent, WAIT_BOUND_MS);
    if (code != 3 ||
        strstr(agent_process_log(job->agent), "put the job id in braces, like {pipe-42}") == NULL)
      job_fail(job, "exit code %d, or no advice about braces", code);
  }
}
