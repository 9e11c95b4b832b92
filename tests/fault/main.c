/*
 * Breaks everything that can break between the agent and Redis, and counts what gets lost.
 *
 *   fault [--short] [--seed N]              all families, one line each; then again over TLS
 *   fault [--short] [--seed N] plain|tls    one half of that
 *   fault [--short] [--seed N] FAMILY       one of them; over TLS the name is tls-FAMILY
 *   fault FAMILY [in|out] NUMBER            one trial, as a failing one is named
 *
 * The program under test is $AGENT, the server $REDIS_SERVER; FAULT_PLACES trials run at a time.
 * The exit code is 0 when every family broke something and nothing came out wrong.
 */

#include <sys/random.h>

#include "tests/fault/crew.h"
#include "tests/test.h"

struct wish {
  bool in_short;
  bool one;                    /* a single trial */
  const struct family *family; /* NULL: all families */
  bool transports[2];          /* plain, over TLS */
  enum relay_role role;
  long number;
  long seed;
};

static const struct family *find_family(const char *name) {
  for (size_t i = 0; i < families_count; i++) {
    if (strcmp(families[i].name, name) == 0)
      return &families[i];
  }
  return NULL;
}

#define TLS_PREFIX "tls-"

/* Parses the name of a family, or of all families over one transport. */
static bool parse_family(const char *name, struct wish *out) {
  size_t prefix = sizeof TLS_PREFIX - 1;
  bool over_tls = strncmp(name, TLS_PREFIX, prefix) == 0 || strcmp(name, "tls") == 0;
  out->transports[!over_tls] = false;
  if (strcmp(name, "tls") == 0 || strcmp(name, "plain") == 0)
    return true;
  out->family = find_family(over_tls ? name + prefix : name);
  return out->family != NULL;
}

static bool read_number(const char *text, long *out) {
  char *end;
  *out = text == NULL ? 0 : strtol(text, &end, 10);
  return text != NULL && end != text && *end == '\0' && *out >= 0;
}

/* `arguments` follow the name of the family. */
static bool parse_trial(char **arguments, struct wish *out) {
  if (*arguments == NULL)
    return true;
  if (out->family == NULL)
    return false;
  out->one = true;
  if (out->family->by_role) {
    bool in = strcmp(*arguments, "in") == 0;
    if (!in && strcmp(*arguments, "out") != 0)
      return false;
    out->role = in ? RELAY_INTAKE : RELAY_OUTBOX;
    arguments++;
  }
  return read_number(*arguments, &out->number) && arguments[1] == NULL;
}

static bool parse(char **arguments, struct wish *out) {
  for (; *arguments != NULL && **arguments == '-'; arguments++) {
    if (strcmp(*arguments, "--short") == 0)
      out->in_short = true;
    else if (strcmp(*arguments, "--seed") != 0 || !read_number(*++arguments, &out->seed))
      return false;
  }
  if (*arguments == NULL)
    return true;
  return parse_family(*arguments, out) && parse_trial(arguments + 1, out);
}

/* Trials that restart their servers need whole processors. With more trials at a time, a server
   would not reply within the bound of a wait. */
static int places(void) {
  long wanted;
  if (!read_number(getenv("FAULT_PLACES"), &wanted) || wanted == 0)
    wanted = 6 * sysconf(_SC_NPROCESSORS_ONLN);
  return wanted < CREW_PLACES_MAX ? (int)wanted : CREW_PLACES_MAX;
}

static bool run_families(struct crew *crew, const struct wish *wish, bool over_tls) {
  bool well = true;
  for (size_t i = 0; i < families_count && wish->transports[over_tls] && !crew->told_to_end; i++) {
    if (wish->family == NULL || wish->family == &families[i])
      well = crew_run(crew, &families[i], over_tls, wish->in_short) && well;
  }
  return well;
}

int main(int argc, char **argv) {
  (void)argc;
  uint16_t random = 0;
  (void)getrandom(&random, sizeof random, 0);
  struct wish wish = {.seed = random, .transports = {true, true}};
  if (!parse(argv + 1, &wish)) {
    fprintf(stderr, "usage: %s [--short] [--seed N] [plain|tls|FAMILY [in|out] [NUMBER]]\n",
            argv[0]);
    return 64;
  }
  struct crew *crew = calloc(1, sizeof *crew);
  assert_non_null(crew);
  crew_init(crew, places(), wish.seed);
  bool well;
  if (wish.one) {
    well = crew_run_one(crew, wish.family, wish.transports[true], wish.role, wish.number);
  } else {
    printf("seed %ld, %d trials at a time\n", wish.seed, crew->count);
    well = run_families(crew, &wish, false);
    well = run_families(crew, &wish, true) && well;
  }
  crew_release(crew);
  free(crew);
  return well ? 0 : 1;
}
