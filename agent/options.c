#include "agent/options.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/doors/redis/pace.h"
#include "agent/engine/lines.h"
#include "base/memory.h"

const char options_help[] =
    "Usage: agent --redis-url URL --job-id ID [OPTION]...\n"
    "       agent --once [--job-id ID] [--line-bytes N] [--verbose] <STEP\n"
    "       agent --inject TARGET\n"
    "Takes Steps from the Redis list sandbox:ID:in, runs them, and reports to\n"
    "sandbox:ID:events and sandbox:ID:results, until a shutdown step or a signal stops it.\n"
    "\n"
    "  --redis-url URL       redis://[user:password@]host[:port][/db],\n"
    "                        redis+sentinel://[user:password@]host[:port],.../master-name[/db],\n"
    "                        unix://[user:password@]/path/to/socket[?db=n],\n"
    "                        or host[:port][,password=...,user=...,defaultDatabase=n]\n"
    "                        [REDIS_URL]\n"
    "  --job-id ID           the job whose steps this agent runs [JOB_ID]\n"
    "  --run-id ID           at the idle limit, keep waiting while this run is a member of the\n"
    "                        Redis set agentsmith:runs:active [AGENTSMITH_RUN_ID]\n"
    "  --idle-cycles N       exit after N times 60 s without a step, default 5\n"
    "                        [AGENTSMITH_SANDBOX_MAX_IDLE_CYCLES]\n"
    "  --connect-timeout SECONDS\n"
    "                        exit with 3 when Redis cannot be reached at boot for this long; "
    "default:\n"
    "                        wait for it until the idle limit\n"
    "  --events-maxlen N     trim the event stream to about N entries, default 10000; 0: no limit\n"
    "  --events-keep-bytes N keep events beyond that for 5 s, up to N bytes, for readers that "
    "poll,\n"
    "                        default 8388608; 0: do not\n"
    "  --events-pace N       after a burst of --events-maxlen events, read the output of a "
    "command\n"
    "                        at N lines a second, for readers that need every event; 0: no limit\n"
    "  --hold-bytes N        queue up to N bytes of output that Redis has not acknowledged; "
    "beyond\n"
    "                        that the command waits; default 4194304\n"
    "  --line-bytes N        a line of more than N bytes arrives in pieces, default 1048576\n"
    "  --key-ttl SECONDS     time to live of the job's keys, which a running agent refreshes,\n"
    "                        default 604800; 0: they do not expire\n"
    "  --once                run the one Step on standard input, without Redis; write its events "
    "and\n"
    "                        its result to standard output, a line each, and exit with its code\n"
    "  --inject TARGET       copy this program to TARGET, a file or a directory, and exit\n"
    "  --dumpable            let debuggers of the same user attach to the agent (gdb, strace), "
    "and\n"
    "                        any of its processes read its memory, passwords included\n"
    "  --verbose             log at debug level, every line of output included\n"
    "  --help                show this and exit\n"
    "  --version             show the version and those of the linked libraries, and exit\n"
    "\n"
    "A flag wins over the environment variable in [brackets].\n"
    "Exit codes: 0 shutdown step, or injected; 2 idle limit; 3 an error that cannot be recovered "
    "from;\n"
    "64 wrong usage; 128+N stopped by signal N. With --once: the step's exit code; 124 timed out;\n"
    "125 refused or not started.\n";

enum flag {
  REDIS_URL = 256,
  JOB_ID,
  RUN_ID,
  IDLE_CYCLES,
  CONNECT_TIMEOUT,
  EVENTS_MAXLEN,
  EVENTS_KEEP_BYTES,
  EVENTS_PACE,
  SEND_QUEUE_BYTES,
  LINE_BYTES,
  KEY_TTL,
  ONCE,
  INJECT,
  DUMPABLE,
  VERBOSE,
  HELP,
  VERSION
};

static const struct option flags[] = {
    {"redis-url", required_argument, NULL, REDIS_URL},
    {"job-id", required_argument, NULL, JOB_ID},
    {"run-id", required_argument, NULL, RUN_ID},
    {"idle-cycles", required_argument, NULL, IDLE_CYCLES},
    {"connect-timeout", required_argument, NULL, CONNECT_TIMEOUT},
    {"events-maxlen", required_argument, NULL, EVENTS_MAXLEN},
    {"events-keep-bytes", required_argument, NULL, EVENTS_KEEP_BYTES},
    {"events-pace", required_argument, NULL, EVENTS_PACE},
    {"hold-bytes", required_argument, NULL, SEND_QUEUE_BYTES},
    {"line-bytes", required_argument, NULL, LINE_BYTES},
    {"key-ttl", required_argument, NULL, KEY_TTL},
    {"once", no_argument, NULL, ONCE},
    {"inject", required_argument, NULL, INJECT},
    {"dumpable", no_argument, NULL, DUMPABLE},
    {"verbose", no_argument, NULL, VERBOSE},
    {"help", no_argument, NULL, HELP},
    {"version", no_argument, NULL, VERSION},
    {NULL, 0, NULL, 0}};

#define KEY_TTL_MAX_SECONDS (100ULL * 365 * 24 * 3600)

/* The values as they were given; NULL: not given. */
struct raw {
  const char *redis_url;
  const char *job_id;
  const char *run_id;
  const char *idle_cycles;
  const char *connect_timeout;
  const char *events_maxlen;
  const char *events_keep_bytes;
  const char *events_pace;
  const char *hold_bytes;
  const char *line_bytes;
  const char *key_ttl;
  const char *inject;
};

static int read_number(const char *name, const char *text, unsigned long long least,
                       unsigned long long most, unsigned long long *out, struct error *error) {
  if (text == NULL)
    return 0;
  char *end;
  errno = 0;
  unsigned long long value = strtoull(text, &end, 10);
  if (!isdigit((unsigned char)text[0]) || *end != '\0' || errno != 0 || value < least ||
      value > most)
    return error_set(error, "%s: expected a whole number from %llu to %llu, got '%.40s'", name,
                     least, most, text);
  *out = value;
  return 0;
}

static int unexpected(struct error *error, const char *what, const char *argument) {
  /* It may be a URL without --redis-url before it. The whole text is redacted and then cut, since
     in a part of a URL the password could not be found. */
  char *shown = memory_copy(argument, strlen(argument));
  redis_url_redact(shown);
  (void)error_set(error, "%s '%.99s'", what, shown);
  free(shown);
  return -1;
}

static int unknown(struct error *error, const char *argument) {
  /* In -xyz each letter is an option, and optind is not after the argument yet. */
  char letter[] = {'-', (char)optopt, '\0'};
  if (optopt > 0 && optopt < REDIS_URL)
    argument = letter;
  return unexpected(error, optopt >= REDIS_URL ? "no value is expected in" : "unknown option",
                    argument);
}

static int read_flags(struct options *self, struct raw *raw, int argc, char **argv,
                      struct error *error) {
  opterr = 0;
  optind = 0;
  for (int flag; (flag = getopt_long(argc, argv, ":", flags, NULL)) != -1;) {
    switch (flag) {
    case REDIS_URL:
      raw->redis_url = optarg;
      break;
    case JOB_ID:
      raw->job_id = optarg;
      break;
    case RUN_ID:
      raw->run_id = optarg;
      break;
    case IDLE_CYCLES:
      raw->idle_cycles = optarg;
      break;
    case CONNECT_TIMEOUT:
      raw->connect_timeout = optarg;
      break;
    case EVENTS_MAXLEN:
      raw->events_maxlen = optarg;
      break;
    case EVENTS_KEEP_BYTES:
      raw->events_keep_bytes = optarg;
      break;
    case EVENTS_PACE:
      raw->events_pace = optarg;
      break;
    case SEND_QUEUE_BYTES:
      raw->hold_bytes = optarg;
      break;
    case LINE_BYTES:
      raw->line_bytes = optarg;
      break;
    case KEY_TTL:
      raw->key_ttl = optarg;
      break;
    case ONCE:
      self->action = OPTIONS_ONCE;
      break;
    case INJECT:
      raw->inject = optarg;
      self->action = OPTIONS_INJECT;
      break;
    case DUMPABLE:
      self->dumpable = true;
      break;
    case VERBOSE:
      self->verbose = true;
      break;
    case HELP:
      self->action = OPTIONS_HELP;
      return 0;
    case VERSION:
      self->action = OPTIONS_VERSION;
      return 0;
    case ':':
      return unexpected(error, "a value is missing after", argv[optind - 1]);
    default:
      return unknown(error, argv[optind - 1]);
    }
  }
  return optind < argc ? unexpected(error, "unexpected argument", argv[optind]) : 0;
}

/* An empty variable counts as one that is not set, as manifests often have it. */
static const char *flag_or_variable(const char *flag, const char *variable) {
  const char *value = flag != NULL ? flag : getenv(variable);
  return value != NULL && value != flag && value[0] == '\0' ? NULL : value;
}

static void read_environment(struct raw *raw) {
  raw->redis_url = flag_or_variable(raw->redis_url, "REDIS_URL");
  raw->job_id = flag_or_variable(raw->job_id, "JOB_ID");
  raw->run_id = flag_or_variable(raw->run_id, "AGENTSMITH_RUN_ID");
  raw->idle_cycles = flag_or_variable(raw->idle_cycles, "AGENTSMITH_SANDBOX_MAX_IDLE_CYCLES");
}

static int convert_line_bytes(struct options *self, const struct raw *raw, struct error *error) {
  unsigned long long bytes = LINE_BYTES_DEFAULT;
  int result =
      read_number("--line-bytes", raw->line_bytes, LINE_BYTES_MIN, LINE_BYTES_MAX, &bytes, error);
  self->line_bytes = (size_t)bytes;
  return result;
}

static int convert(struct options *self, const struct raw *raw, struct error *error) {
  unsigned long long cycles = 5, connect_timeout = 0;
  unsigned long long hold_bytes = (unsigned long long)4 * 1024 * 1024;
  self->events_maxlen = 10000;
  self->events_keep_bytes = 8ULL * 1024 * 1024;
  self->key_ttl_seconds = 604800;
  /* The limits: a thousand years of idle time, more memory than a container has, and a hundred
     years, which Redis can add to its clock in milliseconds without an overflow. */
  if (read_number("--idle-cycles (or AGENTSMITH_SANDBOX_MAX_IDLE_CYCLES)", raw->idle_cycles, 1,
                  525600000, &cycles, error) != 0 ||
      read_number("--connect-timeout", raw->connect_timeout, 1, 1000000000, &connect_timeout,
                  error) != 0 ||
      read_number("--events-maxlen", raw->events_maxlen, 0, 1ULL << 62, &self->events_maxlen,
                  error) != 0 ||
      read_number("--events-keep-bytes", raw->events_keep_bytes, 0, 1ULL << 40,
                  &self->events_keep_bytes, error) != 0 ||
      read_number("--events-pace", raw->events_pace, 0, PACE_MAX, &self->events_pace, error) != 0 ||
      read_number("--hold-bytes", raw->hold_bytes, 65536, 1ULL << 40, &hold_bytes, error) != 0 ||
      read_number("--key-ttl", raw->key_ttl, 0, KEY_TTL_MAX_SECONDS, &self->key_ttl_seconds,
                  error) != 0)
    return -1;
  self->idle_cycles = (unsigned)cycles;
  self->connect_timeout_seconds = (unsigned)connect_timeout;
  self->hold_bytes = (size_t)hold_bytes;
  if (raw->redis_url == NULL || raw->redis_url[0] == '\0')
    return error_set(error, "--redis-url (or REDIS_URL) is required");
  if (raw->job_id == NULL || raw->job_id[0] == '\0')
    return error_set(error, "--job-id (or JOB_ID) is required");
  if (redis_url_parse(&self->redis, raw->redis_url, error) != 0)
    return -1;
  self->job_id = memory_copy(raw->job_id, strlen(raw->job_id));
  if (raw->run_id != NULL && raw->run_id[0] != '\0')
    self->run_id = memory_copy(raw->run_id, strlen(raw->run_id));
  return 0;
}

/* Flags for Redis are errors with --once; the variables for it are ignored. */
static int convert_once(struct options *self, const struct raw *raw, struct error *error) {
  const struct {
    const char *name, *value;
  } flags_of_redis[] = {
      {"--redis-url", raw->redis_url},         {"--run-id", raw->run_id},
       {"--connect-timeout", raw->connect_timeout},
      {"--idle-cycles", raw->idle_cycles},     {"--hold-bytes", raw->hold_bytes},
      {"--events-maxlen", raw->events_maxlen}, {"--events-keep-bytes", raw->events_keep_bytes},
      {"--events-pace", raw->events_pace},     {"--key-ttl", raw->key_ttl}};
  for (size_t i = 0; i < sizeof flags_of_redis / sizeof *flags_of_redis; i++)
    if (flags_of_redis[i].value != NULL)
      return error_set(error, "%s: not with --once, which needs no Redis", flags_of_redis[i].name);
  const char *job_id = flag_or_variable(raw->job_id, "JOB_ID");
  if (job_id != NULL && job_id[0] != '\0')
    self->job_id = memory_copy(job_id, strlen(job_id));
  return 0;
}

int options_parse(struct options *self, int argc, char **argv, struct error *error) {
  struct raw raw = {0};
  *self = (struct options){.action = OPTIONS_RUN};
  if (read_flags(self, &raw, argc, argv, error) != 0)
    return -1;
  if (self->action == OPTIONS_INJECT && raw.inject != NULL) {
    if (raw.inject[0] == '\0')
      return error_set(error, "--inject: expected a file or a directory, got nothing");
    self->inject_target = memory_copy(raw.inject, strlen(raw.inject));
  }
  if (self->action == OPTIONS_ONCE)
    return convert_line_bytes(self, &raw, error) != 0 ? -1 : convert_once(self, &raw, error);
  if (self->action != OPTIONS_RUN)
    return 0;
  if (convert_line_bytes(self, &raw, error) != 0)
    return -1;
  read_environment(&raw);
  return convert(self, &raw, error);
}

void options_release(struct options *self) {
  redis_url_release(&self->redis);
  free(self->job_id);
  free(self->run_id);
  free(self->inject_target);
  self->job_id = self->run_id = self->inject_target = NULL;
}
