/*
 * Breaks what can break between the agent and Redis, and counts what got lost on the way.
 *
 *   fault [--short] [--seed N]              all families, one line each
 *   fault [--short] [--seed N] FAMILY       one of them
 *   fault FAMILY [in|out] NUMBER            one trial, as a failing one is named
 *
 * The program under test is $AGENT, the server $REDIS_SERVER; FAULT_PLACES trials run at a time.
 * The exit code is 0 when every family broke something and nothing came out wrong.
 */

#include <sys/random.h>
#include <unistd.h>

#include "tests/fault/crew.h"
#include "tests/test.h"

struct wish {
  bool in_short;
  bool one; /* a single trial */
  const struct family *family;
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

static bool read_number(const char *text, long *out) {
  char *end;
  *out = text == NULL ? 0 : strtol(text, &end, 10);
  return text != NULL && end != text && *end == '\0' && *out >= 0;
}

/* `arguments` behind the family's name. */
static bool parse_trial(char **arguments, struct wish *out) {
  if (*arguments == NULL)
    return true;
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
  out->family = find_family(*arguments);
  return out->family != NULL && parse_trial(arguments + 1, out);
}

static int places(void) {
  long wanted;
  if (!read_number(getenv("FAULT_PLACES"), &wanted) || wanted == 0)
    wanted = 12 * sysconf(_SC_NPROCESSORS_ONLN);
  return wanted < CREW_PLACES_MAX ? (int)wanted : CREW_PLACES_MAX;
}

int main(int argc, char **argv) {
  (void)argc;
  uint16_t random = 0;
  (void)getrandom(&random, sizeof random, 0);
  struct wish wish = {.seed = random};
  if (!parse(argv + 1, &wish)) {
    fprintf(stderr, "usage: %s [--short] [--seed N] [FAMILY [in|out] [NUMBER]]\n", argv[0]);
    return 64;
  }
  struct crew *crew = calloc(1, sizeof *crew);
  assert_non_null(crew);
  crew_init(crew, places(), wish.seed);
  bool well = true;
  if (wish.one)
    well = crew_run_one(crew, wish.family, wish.role, wish.number);
  else
    printf("seed %ld, %d trials at a time\n", wish.seed, crew->count);
  for (size_t i = 0; i < families_count && !wish.one && !crew->told_to_end; i++) {
    if (wish.family == NULL || wish.family == &families[i])
      well = crew_run(crew, &families[i], wish.in_short) && well;
  }
  crew_release(crew);
  free(crew);
  return well ? 0 : 1;
}
