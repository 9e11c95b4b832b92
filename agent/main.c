#define PCRE2_CODE_UNIT_WIDTH 8

#include <assert.h>
#include <cjson/cJSON.h>
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <limits.h>
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/engine/engine.h"
#include "agent/engine/step_policy.h"
#include "agent/exit_code.h"
#include "agent/frontends/http/connection/listener.h"
#include "agent/frontends/http/frontend.h"
#include "agent/frontends/mcp/frontend.h"
#include "agent/frontends/mcp/http_frontend.h"
#include "agent/frontends/once/frontend.h"
#include "agent/frontends/redis/connection/tls.h"
#include "agent/frontends/redis/frontend.h"
#include "agent/frontends/request_files/frontend.h"
#include "agent/frontends/stdio/frontend.h"
#include "agent/frontends/stdio/http_frontend.h"
#include "agent/kinds/kind.h"
#include "agent/options.h"
#include "agent/payload_limit.h"
#include "agent/startup.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/memory.h"
#include "base/process_title.h"
#include "inject/inject.h"
#include "wire/features.h"
#include "wire/version.h"

static_assert(MEMORY_EXHAUSTED_EXIT == AGENT_EXIT_ERROR, "exit_code.h names it");

/* The files beside the program in the carrier image: tools for steps, the authorities of tls.h, and
   the client. */
static const struct inject_carrier carrier = {
    .tools = "/python", .files = {{"/" TLS_BUNDLE, 0644}, {"/sandbox", 0755}}};

/* The idle limit is --idle-cycles of these. */
#ifndef IDLE_CYCLE_SECONDS
#define IDLE_CYCLE_SECONDS 60
#endif

static int inject(const char *target) {
  char text[2 * PATH_MAX];
  int result = inject_program(target, &carrier, text, sizeof text);
  (void)fprintf(result == 0 ? stdout : stderr, "agent: %s\n", text);
  return result == 0 ? 0 : AGENT_EXIT_ERROR;
}

static struct frontend *make_http_frontend(const struct options *options, struct event_base *base,
                                           const struct log *log) {
  const struct http_frontend_options http_options = {
      .http = &options->http,
      .events_max = options->redis.delivery.events_maxlen,
      .events_bytes_max = options->redis.delivery.events_keep_bytes};
  return http_frontend_new(base, log, &http_options);
}

static struct frontend *make_frontend(const struct options *options, struct event_base *base,
                                      const struct log *log) {
  switch (options->action) {
  case OPTIONS_HTTP:
    return make_http_frontend(options, base, log);
  case OPTIONS_ONCE:
    return once_frontend_new(base, log);
  case OPTIONS_IPC:
    return request_files_frontend_new(base, log, &options->files);
  case OPTIONS_STDIO:
    return options->is_over_http
               ? stdio_http_frontend_new(base, log, &options->stdio, &options->http)
               : stdio_frontend_new(base, log, &options->stdio);
  case OPTIONS_MCP:
    return options->is_over_http ? mcp_http_frontend_new(base, log, &options->mcp, &options->http)
                                 : mcp_frontend_new(base, log, &options->mcp);
  default:
    return redis_frontend_new(base, log, &options->redis);
  }
}

/* The secrets in the agent's memory. */
struct own_secrets {
  char *redis_password, *http_key; /* NULL: none */
  struct secrets *secrets;
};

static void erase(char *text) {
  if (text != NULL)
    explicit_bzero(text, strlen(text));
}

/* Called in a supervisor. */
static void forget_secrets(void *owner) {
  const struct own_secrets *self = owner;
  erase(self->redis_password);
  erase(self->http_key);
  masker_erase(&self->secrets->masker);
}

/* Serves the frontend of the options. Returns the exit code. */
static int serve(const struct options *options, const struct startup *startup,
                 const struct process_title *title, const struct confinement *confinement,
                 struct secrets *secrets, const struct log *log) {
  bool has_idle_limit = options->action == OPTIONS_RUN || options->action == OPTIONS_HTTP;
  struct own_secrets own = {options->url.password, options->http.key, secrets};
  struct engine_options engine_options = {
      .base = loop_event_base_new(),
      .log = log,
      .secrets = secrets,
      .supervisor = {.work = kinds_work,
                     .forget = forget_secrets,
                     .owner = &own,
                     .open_files = startup->open_files,
                     .nice = (int)options->nice,
                     .stdin_fd = startup->stdin_fd,
                     .oom_score_fd = startup->oom_score_fd,
                     .rules_fd = confinement_rules(confinement),
                     .title = title},
      .signal_fd = startup->signal_fd,
      .idle_limit_ms =
          has_idle_limit ? (int64_t)options->idle_cycles * IDLE_CYCLE_SECONDS * 1000 : 0,
      .line_bytes = (size_t)options->line_bytes,
      .job_id = options->redis.job_id,
      .kind = {.environment = environ, .known = kinds, .confinement = confinement},
      .version = SANDBOX_VERSION,
      .drain_ms = (int64_t)options->drain_seconds * 1000,
      .memory_reserve = options->memory_reserve};
  struct engine *engine = engine_new(&engine_options);
  struct frontend *frontend = make_frontend(options, engine_options.base, log);
  engine_set_frontend(engine, frontend);
  int exit_code = engine_run(engine);
  engine_free(engine);
  frontend->type->free(frontend);
  event_base_free(engine_options.base);
  return exit_code == AGENT_EXIT_IDLE ? (int)options->idle_exit_code : exit_code;
}

static bool has_tls_options(const struct tls_options *tls) {
  return tls->ca_file != NULL || tls->ca_directory != NULL || tls->certificate != NULL ||
         tls->key != NULL || tls->name != NULL || tls->insecure;
}

/* Prepares TLS if the URL asks for it. */
static int prepare_tls(struct options *options, const struct log *log, struct error *error) {
  struct redis_url *url = &options->url;
  if (url->ignored != NULL)
    log_line(log, LOG_DEBUG, NULL, "ignoring parts of the connection string: %s", url->ignored);
  if (!url->secure) {
    if (has_tls_options(&options->tls))
      log_line(log, LOG_WARN, NULL,
               "the TLS options have no effect: the connection to Redis is not encrypted; use "
               "rediss:// or ssl=true");
    return 0;
  }
  url->tls = tls_new(&options->tls, error);
  if (url->tls != NULL && options->tls.insecure)
    log_line(log, LOG_WARN, NULL,
             "--insecure: the server's certificate is not verified, so anyone on the network path "
             "can read and change the data");
  return url->tls != NULL ? 0 : -1;
}

/* Binds the address before any other process exists that could take the port. */
static int bind_http(struct options *options, struct http_listener *listener, struct error *error) {
  options->http.listener = listener;
  return options->is_over_http ? http_listener_bind(listener, &options->http.address, error) : 0;
}

/* Completes the options of the frontends with what is no setting of their own. */
static int complete(struct options *options, const struct log *log, struct error *error) {
  struct tool_settings *tools = &options->tools;
  options->redis.delivery.url = &options->url;
  options->redis.version = SANDBOX_VERSION;
  options->redis.idle_cycle_ms = IDLE_CYCLE_SECONDS * 1000;
  options->redis.connect_timeout_ms = (int64_t)options->connect_timeout_seconds * 1000;
  options->files.rules =
      (struct exec_request_rules){.pack = getenv("SYMPOZIUM_SKILL_PACK"),
                                  .directory = tools->directory,
                                  .timeout_seconds = tools->limits.timeout_default,
                                  .timeout_max_seconds = tools->limits.timeout_maximum};
  options->files.concurrency = options->stdio.concurrency = options->mcp.concurrency;
  options->files.verbose = options->verbose;
  options->stdio.version = options->mcp.program_version = SANDBOX_VERSION;
  options->http.job_id = options->redis.job_id;
  options->http.access.accepts_local_origins = options->action == OPTIONS_MCP;
  if (options->action == OPTIONS_RUN)
    return prepare_tls(options, log, error);
  options->files.rules.shell = tools->shell = startup_shell();
  if ((options->action == OPTIONS_STDIO || options->action == OPTIONS_MCP) &&
      startup_directory(&tools->directory, error) != 0)
    return -1;
  options->stdio.tools = options->mcp.tools = *tools;
  if (options->is_over_http)
    return http_listener_listen(options->http.listener, error);
  return 0;
}

static int fail(const struct log *log, const char *reason) {
  log_line(log, LOG_ERROR, NULL, "%s", reason);
  return AGENT_EXIT_ERROR;
}

/* The forms of a value that the masker searches for have up to 60 times its bytes, and each byte
   takes 13 bytes (needles.h). So the masker uses at most a 16th of a small container's memory; for
   typical values a 100th. */
#define SECRETS_SHARE 256
static_assert(PAYLOAD_LIMIT_MIN / SECRETS_SHARE >= MASKER_BYTES_MIN, "the masker needs this many");

static size_t secrets_max(void) {
  const size_t most = payload_limit() / SECRETS_SHARE;
  return most < MASKER_BYTES_MAX ? most : MASKER_BYTES_MAX;
}

/* Logs what the agent's own policy enforces on each step, and what it does not. */
static void log_policy(const struct log *log, const struct confinement *confinement) {
  struct confinement_plan plan;
  struct error ignored;
  struct buffer text = {0};
  const struct step step = {.fence = NULL};
  if (confinement_fence(confinement) == NULL ||
      confinement_plan(confinement, &step, &plan, &ignored) != 0)
    return;
  for (size_t i = 0; plan.enforced[i] != NULL; i++)
    buffer_add_format(&text, "%s%s", i > 0 ? ", " : "", plan.enforced[i]);
  buffer_add_format(&text, "; network \"%s\"", plan.report.network);
  log_line(log, LOG_INFO, NULL, "each step is confined: %.*s (Landlock ABI %d)", (int)text.length,
           text.bytes, plan.report.landlock);
  step_policy_log_missing(&plan, log, NULL);
  buffer_release(&text);
}

static struct confinement *prepare_confinement(const struct options *options, const struct log *log,
                                               struct error *error) {
  struct error reason;
  struct confinement *confinement = confinement_new(&options->confinement, &reason);
  if (confinement != NULL)
    log_policy(log, confinement);
  else
    (void)error_set(error, "--fence: %s", reason.text);
  return confinement;
}

static int run_agent(struct options *options, const struct process_title *title) {
  unsigned long dropped = 0;
  struct secrets secrets = {0};
  bool is_server = options->action == OPTIONS_RUN || options->is_over_http;
  struct http_listener listener = {.count = 0};
  struct log log = {.dropped = &dropped,
                    .least = options->verbose ? LOG_DEBUG
                             : is_server      ? LOG_INFO
                                              : LOG_WARN,
                    .job = options->redis.job_id,
                    .format = options->log_format,
                    .masker = &secrets.masker,
                    .fd = STDERR_FILENO};
  struct error error;
  struct startup startup;
  if (!is_server && options->action != OPTIONS_IPC && fcntl(STDOUT_FILENO, F_GETFD) < 0)
    return fail(&log, "standard output is closed");
  if (startup_init(&startup, options->dumpable, &error) != 0)
    return fail(&log, error.text);
  secrets_init(&secrets, options->mask_env, secrets_max, &log);
  if (options->url.password != NULL)
    secrets_add(&secrets, &log, "the password of Redis", options->url.password);
  if (options->http.key != NULL)
    secrets_add(&secrets, &log, "the key of HTTP", options->http.key);
  if (!startup.keeps_orphans)
    log_line(&log, LOG_WARN, NULL,
             "this kernel has no child subreaper: a process that leaves its step's tree is not "
             "killed with the step");
  startup_offer_tools();
  options->confinement.agent_is_protected = startup.is_protected;
  struct confinement *confinement = prepare_confinement(options, &log, &error);
  bool is_ready = confinement != NULL && bind_http(options, &listener, &error) == 0 &&
                  complete(options, &log, &error) == 0;
  int exit_code = is_ready ? serve(options, &startup, title, confinement, &secrets, &log)
                           : fail(&log, error.text);
  confinement_free(confinement);
  http_listener_close(&listener);
  options->http.listener = NULL;
  log_line(&log, LOG_INFO, NULL, "exiting with code %d", exit_code);
  tls_free(options->url.tls);
  startup_release(&startup);
  secrets_release(&secrets);
  return exit_code;
}

/* Prints the help or the version. */
static int print_info(bool version) {
  char pcre2[64]; /* with its date */
  (void)pcre2_config(PCRE2_CONFIG_VERSION, pcre2);
  if (version) {
    (void)printf(
        "sandbox agent %s (libevent %s, cJSON %s, PCRE2 %.*s, %s)\nprotocol " PROTOCOL_VERSIONS ":",
        SANDBOX_VERSION, event_get_version(), cJSON_Version(), (int)strcspn(pcre2, " "), pcre2,
        tls_library());
    for (size_t i = 0; protocol_features[i] != NULL; i++)
      (void)printf(" %s", protocol_features[i]);
    (void)printf("\n");
  } else {
    options_print_help(stdout);
  }
  if (fflush(stdout) == 0 && !ferror(stdout))
    return 0;
  (void)fprintf(stderr, "agent: standard output: %s\n", strerror(errno));
  return AGENT_EXIT_ERROR;
}

int main(int argc, char **argv) {
  struct options options;
  struct error error;
  const struct process_title title = process_title_find(argc, argv, environ);
  int parsed = options_parse(&options, argc, argv, &error);
  startup_hide_credentials(argc, argv);
  options_forget_variables();
  if (parsed != 0) {
    bool is_usage = error.code == 0;
    (void)fprintf(stderr, "agent: %s\n%s", error.text, is_usage ? "Try 'agent --help'.\n" : "");
    return is_usage ? AGENT_EXIT_USAGE : AGENT_EXIT_ERROR;
  }
  int exit_code = 0;
  if (options.action == OPTIONS_HELP || options.action == OPTIONS_VERSION)
    exit_code = print_info(options.action == OPTIONS_VERSION);
  else if (options.action == OPTIONS_INJECT)
    exit_code = inject(options.inject_target);
  else
    exit_code = run_agent(&options, &title);
  options_release(&options);
  return exit_code;
}
