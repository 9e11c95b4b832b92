#define PCRE2_CODE_UNIT_WIDTH 8

#include <cjson/cJSON.h>
#include <event2/event.h>
#include <limits.h>
#include <pcre2.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/doors/redis/net/version.h"
#include "agent/options.h"
#include "agent/startup.h"
#include "base/log.h"
#include "inject/inject.h"

#define AGENT_VERSION "0.1.0"

/* Where the carrier image keeps tools that steps may need. */
#define CARRIER_TOOLS "/python"

static int inject(const char *target) {
  char text[2 * PATH_MAX];
  int result = inject_program(target, CARRIER_TOOLS, text, sizeof text);
  (void)fprintf(result == 0 ? stdout : stderr, "agent: %s\n", text);
  return result == 0 ? 0 : AGENT_EXIT_ERROR;
}

static int run(const struct options *options) {
  unsigned long dropped = 0;
  struct log log = {.dropped = &dropped,
                    .least = options->verbose ? LOG_DEBUG : LOG_INFO,
                    .job = options->job_id,
                    .fd = STDERR_FILENO};
  struct error error;
  struct startup self;
  if (startup_init(&self, options->dumpable, &error) != 0) {
    log_line(&log, LOG_ERROR, NULL, "%s", error.text);
    return AGENT_EXIT_ERROR;
  }
  if (!self.keeps_orphans)
    log_line(&log, LOG_WARN, NULL,
             "this kernel knows no child subreaper: a process that leaves its step is not ended "
             "with it");
  startup_offer_tools();
  int exit_code = agent_run(options, &self, &log);
  startup_release(&self);
  return exit_code;
}

static void print_version(void) {
  char pcre2[64]; /* with its date */
  (void)pcre2_config(PCRE2_CONFIG_VERSION, pcre2);
  pcre2[strcspn(pcre2, " ")] = '\0';
  (void)printf("sandbox agent %s (%s, libevent %s, cJSON %s, PCRE2 %s)\n", AGENT_VERSION,
               redis_client_version(), event_get_version(), cJSON_Version(), pcre2);
}

int main(int argc, char **argv) {
  struct options options;
  struct error error;
  int parsed = options_parse(&options, argc, argv, &error);
  startup_hide_credentials(argc, argv);
  if (parsed != 0) {
    (void)fprintf(stderr, "agent: %s\nTry 'agent --help'.\n", error.text);
    return AGENT_EXIT_USAGE;
  }
  int exit_code = 0;
  if (options.action == OPTIONS_HELP)
    (void)fputs(options_help, stdout);
  else if (options.action == OPTIONS_VERSION)
    print_version();
  else if (options.action == OPTIONS_INJECT)
    exit_code = inject(options.inject_target);
  else
    exit_code = run(&options);
  options_release(&options);
  return exit_code;
}
