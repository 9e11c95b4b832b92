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

#include "agent/doors/files/door.h"
#include "agent/doors/mcp/door.h"
#include "agent/doors/once/door.h"
#include "agent/doors/redis/door.h"
#include "agent/doors/redis/link/reply_parser.h"
#include "agent/doors/redis/link/tls.h"
#include "agent/doors/stdio/door.h"
#include "agent/engine/engine.h"
#include "agent/exit_code.h"
#include "agent/kinds/kind.h"
#include "agent/options.h"
#include "agent/startup.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/memory.h"
#include "inject/inject.h"

#define AGENT_VERSION "0.1.0"

static_assert(MEMORY_EXHAUSTED_EXIT == AGENT_EXIT_ERROR, "one code for what cannot go on");

/* Where the carrier image keeps tools that steps may need, and the authorities of tls.h. */
#define CARRIER_TOOLS "/python"
#define CARRIER_BUNDLE "/" TLS_BUNDLE

/* One cycle of waiting without a step; --idle-cycles of them are the idle limit. */
#ifndef IDLE_CYCLE_SECONDS
#define IDLE_CYCLE_SECONDS 60
#endif

/* What is executed as a keeper; NULL: a keeper is a fork. */
#ifndef KEEPER_PROGRAM
#define KEEPER_PROGRAM "/proc/self/exe"
#endif

static int inject(const char *target) {
  char text[2 * PATH_MAX];
  int result = inject_program(target, CARRIER_TOOLS, CARRIER_BUNDLE, text, sizeof text);
  (void)fprintf(result == 0 ? stdout : stderr, "agent: %s\n", text);
  return result == 0 ? 0 : AGENT_EXIT_ERROR;
}

/* What a door is made of. */
struct place {
  const struct options *options;
  struct event_base *base;
  const struct log *log;
  char *directory;   /* of tools, absolute; NULL: the door needs none */
  const char *shell; /* see startup_shell */
  struct redis_url redis;
};

static struct door *make_redis_door(const struct place *place) {
  const struct options *options = place->options;
  struct redis_door_options redis_options = {.url = &place->redis,
                                             .job_id = options->job_id,
                                             .run_id = options->run_id,
                                             .run_set = options->run_set,
                                             .idle_cycle_ms = IDLE_CYCLE_SECONDS * 1000,
                                             .events_maxlen = options->events_maxlen,
                                             .events_keep_bytes = options->events_keep_bytes,
                                             .events_pace = options->events_pace,
                                             .key_ttl_seconds = options->key_ttl_seconds,
                                             .connect_timeout_ms =
                                                 (int64_t)options->connect_timeout_seconds * 1000,
                                             .hold_bytes = (size_t)options->hold_bytes};
  return redis_door_new(place->base, place->log, &redis_options);
}

static struct door *make_once_door(const struct place *place) {
  return once_door_new(place->base, place->log);
}

static struct door *make_files_door(const struct place *place) {
  const struct options *options = place->options;
  struct files_door_options files_options = {
      .directory = options->ipc_directory,
      .rules = {.pack = getenv("SYMPOZIUM_SKILL_PACK"),
                .directory = options->workdir,
                .timeout_seconds = (unsigned)options->default_timeout,
                .timeout_max_seconds = (unsigned)options->max_timeout},
      .concurrency = (unsigned)options->concurrency,
      .env_files = options->env_files,
      .shell = place->shell,
      .verbose = options->verbose};
  return files_door_new(place->base, place->log, &files_options);
}

static struct tool_settings tool_settings(const struct place *place) {
  const struct options *options = place->options;
  return (struct tool_settings){.limits = {.timeout_default = (unsigned)options->default_timeout,
                                           .timeout_maximum = (unsigned)options->max_timeout},
                                .directory = place->directory,
                                .shell = place->shell};
}

static struct door *make_stdio_door(const struct place *place) {
  const struct options *options = place->options;
  const struct stdio_door_options stdio = {.is_runner = options->tool_runner,
                                           .tool = options->tool,
                                           .deadline_seconds = (unsigned)options->deadline,
                                           .version = AGENT_VERSION,
                                           .tools = tool_settings(place)};
  return stdio_door_new(place->base, place->log, &stdio);
}

static struct door *make_mcp_door(const struct place *place) {
  const struct options *options = place->options;
  struct mcp_door_options mcp_options = {.program_version = AGENT_VERSION,
                                         .versions = options->mcp_versions,
                                         .structured = options->structured,
                                         .concurrency = (unsigned)options->concurrency,
                                         .tools = tool_settings(place)};
  return mcp_door_new(place->base, place->log, &mcp_options);
}

struct door_row {
  struct door *(*make)(const struct place *place);
  void (*free)(struct door *door);
  bool speaks_here; /* on standard output */
  bool has_tools;
};

static const struct door_row *row_of(const struct options *options) {
  static const struct door_row doors[] = {
      [OPTIONS_RUN] = {make_redis_door, redis_door_free, false, false},
      [OPTIONS_ONCE] = {make_once_door, once_door_free, true, false},
      [OPTIONS_IPC] = {make_files_door, files_door_free, false, false},
      [OPTIONS_STDIO] = {make_stdio_door, stdio_door_free, true, true},
      [OPTIONS_MCP] = {make_mcp_door, mcp_door_free, true, true},
  };
  return &doors[options->action];
}

/* Serves the door that the options name, until its end. */
static int serve(const struct startup *startup, const struct place *place) {
  const struct options *options = place->options;
  bool redis = options->action == OPTIONS_RUN;
  struct engine_options engine_options = {
      .base = place->base,
      .log = place->log,
      .keepers = {.program = KEEPER_PROGRAM,
                  .environment = environ,
                  .work = kinds_work,
                  .open_files = startup->open_files,
                  .stdin_fd = startup->stdin_fd},
      .signal_fd = startup->signal_fd,
      .idle_limit_ms = redis ? (int64_t)options->idle_cycles * IDLE_CYCLE_SECONDS * 1000 : 0,
      .line_bytes = (size_t)options->line_bytes,
      .job_id = options->job_id,
      .kind = {.environment = environ, .known = kinds},
      .keeps_spare = options->action != OPTIONS_ONCE};
  struct engine *engine = engine_new(&engine_options);
  struct door *door = row_of(options)->make(place);
  engine_set_door(engine, door);
  int exit_code = engine_run(engine);
  engine_free(engine);
  row_of(options)->free(door);
  return exit_code;
}

static bool are_any_set(const struct tls_options *tls) {
  return tls->ca_file != NULL || tls->ca_directory != NULL || tls->certificate != NULL ||
         tls->key != NULL || tls->name != NULL || tls->insecure;
}

/* The url as it is connected to; without TLS that needs nothing. */
static int secure(struct place *place, struct error *error) {
  const struct options *options = place->options;
  place->redis = options->redis;
  if (options->redis.ignored != NULL)
    log_line(place->log, LOG_DEBUG, NULL, "ignored of the connection string: %s",
             options->redis.ignored);
  if (!options->redis.secure) {
    if (are_any_set(&options->tls))
      log_line(place->log, LOG_WARN, NULL,
               "the options of TLS have no effect: the connection to redis is plain, without "
               "rediss:// or ssl=true");
    return 0;
  }
  place->redis.tls = tls_new(&options->tls, error);
  if (place->redis.tls != NULL && options->tls.insecure)
    log_line(place->log, LOG_WARN, NULL,
             "--insecure: the server's certificate is not checked: anybody on the way can read and "
             "change everything");
  return place->redis.tls != NULL ? 0 : -1;
}

static int fail(const struct log *log, const char *reason) {
  log_line(log, LOG_ERROR, NULL, "%s", reason);
  return AGENT_EXIT_ERROR;
}

static int serve_at_place(const struct options *options, const struct startup *startup,
                          const struct log *log) {
  struct error error;
  struct place place = {.options = options, .log = log, .shell = startup_shell()};
  if (options->action == OPTIONS_RUN && secure(&place, &error) != 0)
    return fail(log, error.text);
  if (row_of(options)->has_tools &&
      (place.directory = startup_directory(options->workdir, &error)) == NULL)
    return fail(log, error.text);
  place.base = loop_event_base_new();
  int exit_code = serve(startup, &place);
  event_base_free(place.base);
  tls_free(place.redis.tls);
  free(place.directory);
  return exit_code;
}

static int run(const struct options *options) {
  unsigned long dropped = 0;
  struct log log = {.dropped = &dropped,
                    .least = options->verbose                 ? LOG_DEBUG
                             : options->action != OPTIONS_RUN ? LOG_WARN
                                                              : LOG_INFO,
                    .job = options->job_id,
                    .fd = STDERR_FILENO};
  struct error error;
  struct startup startup;
  if (row_of(options)->speaks_here && fcntl(STDOUT_FILENO, F_GETFD) < 0)
    return fail(&log, "standard output is closed");
  if (startup_init(&startup, options->dumpable, &error) != 0)
    return fail(&log, error.text);
  if (!startup.keeps_orphans)
    log_line(&log, LOG_WARN, NULL,
             "this kernel has no child subreaper: a process that leaves its step is not ended with "
             "it");
  startup_offer_tools();
  int exit_code = serve_at_place(options, &startup, &log);
  log_line(&log, LOG_INFO, NULL, "exits with code %d", exit_code);
  startup_release(&startup);
  return exit_code;
}

static void print_version(void) {
  char pcre2[64]; /* with its date */
  (void)pcre2_config(PCRE2_CONFIG_VERSION, pcre2);
  pcre2[strcspn(pcre2, " ")] = '\0';
  (void)printf("sandbox agent %s (%s, libevent %s, cJSON %s, PCRE2 %s, %s)\n", AGENT_VERSION,
               reply_parser_library(), event_get_version(), cJSON_Version(), pcre2, tls_library());
}

/* Help or version. */
static int inform(bool version) {
  if (version)
    print_version();
  else
    options_print_help(stdout);
  if (fflush(stdout) == 0 && !ferror(stdout))
    return 0;
  (void)fprintf(stderr, "agent: standard output: %s\n", strerror(errno));
  return AGENT_EXIT_ERROR;
}

int main(int argc, char **argv) {
  struct options options;
  struct error error;
  if (keeper_is_meant(argc, argv))
    keeper_main((pid_t)strtol(argv[3], NULL, 10), kinds_work);
  int parsed = options_parse(&options, argc, argv, &error);
  startup_hide_credentials(argc, argv);
  options_forget_variables();
  if (parsed != 0) {
    (void)fprintf(stderr, "agent: %s\nTry 'agent --help'.\n", error.text);
    return AGENT_EXIT_USAGE;
  }
  int exit_code = 0;
  if (options.action == OPTIONS_HELP || options.action == OPTIONS_VERSION)
    exit_code = inform(options.action == OPTIONS_VERSION);
  else if (options.action == OPTIONS_INJECT)
    exit_code = inject(options.inject_target);
  else
    exit_code = run(&options);
  options_release(&options);
  return exit_code;
}
