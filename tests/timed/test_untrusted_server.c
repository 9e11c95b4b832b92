/* A server that sends endlessly: deadlines, signals and heartbeats are on time. */

#include <sys/prctl.h>

#include "tests/support/certificates.h"
#include "tests/support/machine_clock.h"
#include "tests/support/redis_server.h"
#include "tests/support/store_agent.h"

/* The tolerance, the period of the heartbeat, and the timeout of a handshake. */
enum { LATE_MS = 500, PERIOD_MS = 2000, HANDSHAKE_MS = 5000 };

#define ENDLESS_STRING "$9000000000000000000\r\n"

static struct agent_process *start_agent(const char *url, const char *more) {
  const char *const arguments[] = {"--redis-url", url, "--job-id", "j", more, NULL};
  return agent_process_start(&(struct agent_setup){.arguments = arguments});
}

/* The reply to the second BLMOVE, which fetches ahead while the first step runs, has no end. */
static void flood(struct store_agent *self, const char *first_step) {
  store_agent_start(self);
  redis_store_inject(self->store, (struct redis_store_fault){.command = "BLMOVE sandbox:j:in",
                                                             .effect = REDIS_STORE_ANSWERS,
                                                             .text = ENDLESS_STRING,
                                                             .endless = "x",
                                                             .skip = 1});
  redis_store_do(self->store, 3, first_step);
  STORE_UNTIL(self, redis_store_count(self->store, "sandbox:j:started") > 0 &&
                        redis_store_injected(self->store) > 0);
}

/* The replies to heartbeats are complete. */
STORE_TEST(an_endless_reply_does_not_delay_deadlines_or_heartbeats) {
  flood(scene, "LPUSH sandbox:j:in {\"stepId\":\"1\",\"command\":\"sleep\",\"args\":[\"60\"],"
               "\"timeoutSeconds\":5}");
  int64_t start_ms = wait_now_ms();
  double start_machine_ms = machine_clock_ms();
  store_agent_answer(scene, "SET sandbox:j:heartbeat", "+OK\r\n", NULL);
  STORE_UNTIL(scene, redis_store_count(scene->store, "sandbox:j:results") > 0);
  assert_true(machine_clock_ms() - start_machine_ms <= 5000 + LATE_MS);
  STORE_UNTIL(scene, redis_store_injected(scene->store) >= 2);
  int64_t most = (wait_now_ms() - start_ms) / PERIOD_MS + 2;
  assert_in_range(redis_store_injected(scene->store), 2, most);
}

STORE_TEST(an_endless_reply_does_not_delay_a_signal) {
  flood(scene, "LPUSH sandbox:j:in {\"stepId\":\"1\",\"command\":\"sleep\",\"args\":[\"60\"]}");
  double start_ms = machine_clock_ms();
  assert_int_equal(kill(agent_process_pid(scene->agent), SIGTERM), 0);
  STORE_UNTIL(scene, agent_process_count_log(scene->agent, "stopping: SIGTERM") > 0);
  assert_true(machine_clock_ms() - start_ms <= LATE_MS);
  STORE_UNTIL(scene, !agent_process_is_running(scene->agent));
  assert_int_equal(agent_process_wait(scene->agent, 0), 128 + SIGTERM);
}

/* --- over TLS --- */

/* openssl s_server sends the beginning of a string and then zeros. */
struct tls_scene {
  struct certificates *certificates;
  pid_t server;
  char url[64];
  char said[64]; /* a file with the data that the agent has sent */
};

static _Noreturn void serve(const struct tls_scene *self, int port) {
  static const char script[] = "(printf '"
                               "$9000000000000000000\\r\\n"
                               "'; exec cat /dev/zero) | "
                               "exec openssl s_server -quiet -accept 127.0.0.1:$1 -cert $2 -key $3 "
                               ">$4 2>/dev/null";
  char number[16];
  (void)snprintf(number, sizeof number, "%d", port);
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  (void)setpgid(0, 0);
  execlp("sh", "sh", "-c", script, "sh", number,
         certificates_path(self->certificates, "server.pem"),
         certificates_path(self->certificates, "server.key"), self->said, (char *)NULL);
  _exit(127);
}

static int set_up_tls(void **state) {
  struct tls_scene *self = calloc(1, sizeof *self);
  assert_non_null(self);
  self->certificates = certificates_new();
  certificates_add_authority(self->certificates, "ca");
  certificates_add(self->certificates, &(struct certificate){.name = "server"});
  (void)snprintf(self->said, sizeof self->said, "%s",
                 certificates_path(self->certificates, "said"));
  int port = redis_server_free_port();
  (void)snprintf(self->url, sizeof self->url, "rediss://127.0.0.1:%d", port);
  self->server = fork();
  if (self->server == 0)
    serve(self, port);
  assert_true(self->server > 0);
  *state = self;
  return 0;
}

static int tear_down_tls(void **state) {
  struct tls_scene *self = *state;
  (void)kill(-self->server, SIGKILL);
  (void)kill(self->server, SIGKILL);
  (void)waitpid(self->server, NULL, 0);
  certificates_free(self->certificates);
  free(self);
  return 0;
}

#define TLS_TEST(NAME) TEST_WITH(struct tls_scene *scene, NAME, set_up_tls, tear_down_tls)

/* The agent has sent something: from now on it is flooded. */
static bool is_flooded(void *context) {
  const struct tls_scene *self = context;
  char text[64] = "";
  FILE *file = fopen(self->said, "r");
  if (file == NULL)
    return false;
  bool there = fgets(text, sizeof text, file) != NULL;
  fclose(file);
  return there;
}

TLS_TEST(an_endless_reply_over_tls_does_not_delay_a_signal) {
  struct agent_process *agent = start_agent(scene->url, "--insecure");
  assert_true(wait_until(is_flooded, scene, WAIT_BOUND_MS));
  const struct timespec a_while = {.tv_nsec = 300000000};
  nanosleep(&a_while, NULL);
  double start_ms = machine_clock_ms();
  assert_int_equal(kill(agent_process_pid(agent), SIGTERM), 0);
  agent_process_wait_log(agent, "stopping: SIGTERM");
  assert_true(machine_clock_ms() - start_ms <= LATE_MS);
  assert_int_equal(agent_process_wait(agent, WAIT_BOUND_MS), 128 + SIGTERM);
  agent_process_free(agent);
}

TLS_TEST(an_endless_reply_over_tls_does_not_delay_the_handshake_timeout) {
  struct agent_process *agent = start_agent(scene->url, "--insecure");
  assert_true(wait_until(is_flooded, scene, WAIT_BOUND_MS));
  double start_ms = machine_clock_ms();
  agent_process_wait_log(agent, "no answer in time; attempt");
  assert_true(machine_clock_ms() - start_ms <= HANDSHAKE_MS + LATE_MS);
  agent_process_free(agent);
}
