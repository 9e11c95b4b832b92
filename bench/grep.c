/*
 * A search for every matching line in a tree of 50,000 source files, which are in the page cache.
 * Ours is a step, from its LPUSH until its result with all matches is here. The ceilings are GNU
 * grep -P and ripgrep with one thread, which search the same files and write to a file. All must
 * find the same number of lines. One search obeys the ignore file of the repository, which has
 * IGNORED lines.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "bench/bench.h"
#include "bench/latency.h"
#include "bench/measurements.h"
#include "bench/rig.h"
#include "bench/source_tree.h"
#include "tests/test.h"

#define JOB "grep"
#define ROUNDS 5
#define FILES 50000
#define GNU_GREP "/bin/grep"
#define RIPGREP "/usr/bin/rg"

/* Each has two rows: beside GNU grep and beside ripgrep. */
static const char *const patterns[] = {"TransactionScope", "TODO|FIXME|HACK",
                                       "\\b\\w+Exception\\b"};
enum {
  PATTERNS = sizeof patterns / sizeof *patterns,
  BESIDE_GNU = 0,
  BESIDE_RIPGREP = 1,
  BY_RULES = 2 * PATTERNS, /* the last row */
  IGNORED = 300
};

static const char *const default_excludes[] = {
    ".git",  "node_modules", "bin",   "obj",      ".vs",        ".idea",  "dist",
    "build", ".next",        ".nuxt", "coverage", ".terraform", "vendor", "__pycache__",
};
enum { LEFT_OUT = sizeof default_excludes / sizeof *default_excludes };

struct grep_bench {
  struct rig rig;
  struct agent_process *agent;
  redisContext *results;
  unsigned long steps;
  char tree[PATH_MAX];
  char found[PATH_MAX + 16]; /* the output of a search */
  char for_gnu[LEFT_OUT][64];
  char for_ripgrep[LEFT_OUT][64];
  int output; /* this program's own standard output */
};

static void print_to_file(const struct grep_bench *self) {
  int fd = open(self->found, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  assert_true(fd >= 0 && dup2(fd, STDOUT_FILENO) == STDOUT_FILENO);
  (void)close(fd);
}

static double search_ms(const struct grep_bench *self, const char *const *arguments) {
  print_to_file(self);
  double begin = latency_now_ms();
  rig_spawn(arguments);
  return latency_now_ms() - begin;
}

static size_t count_marks(const char *text, const char *mark) {
  size_t count = 0;
  for (const char *at = text; (at = strstr(at, mark)) != NULL; at += strlen(mark))
    count++;
  return count;
}

/* `*found` becomes the number of lines. */
static double ours_ms(struct grep_bench *self, const char *pattern, bool by_rules, size_t *found) {
  cJSON *step = cJSON_CreateObject();
  char id[64];
  (void)snprintf(id, sizeof id, RIG_STEP_ID, ++self->steps);
  cJSON_AddStringToObject(step, "stepId", id);
  cJSON_AddStringToObject(step, "kind", "grep");
  cJSON_AddStringToObject(step, "path", self->tree);
  cJSON_AddStringToObject(step, "pattern", pattern);
  cJSON_AddNumberToObject(step, "headLimit", FILES);
  cJSON_AddBoolToObject(step, "searchHidden", !by_rules);
  char *json = cJSON_PrintUnformatted(step);
  cJSON_Delete(step);
  redisAppendCommand(self->results, "BRPOP sandbox:" JOB ":results 0");
  rig_send(self->results);
  double begin = latency_now_ms();
  redisAppendCommand(self->rig.redis, "LPUSH sandbox:" JOB ":in %s", json);
  rig_send(self->rig.redis);
  redisReply *reply = rig_reply(self->results);
  double ms = latency_now_ms() - begin;
  assert_non_null(strstr(reply->element[1]->str, "\"exitCode\":0"));
  *found = count_marks(reply->element[1]->str, "\\\"kind\\\":\\\"match\\\"");
  freeReplyObject(reply);
  freeReplyObject(rig_reply(self->rig.redis));
  free(json);
  return ms;
}

static double gnu_ms(const struct grep_bench *self, const char *pattern) {
  const char *arguments[8 + LEFT_OUT] = {GNU_GREP, "-rnP", "--binary-files=without-match"};
  size_t count = 3;
  for (size_t i = 0; i < LEFT_OUT; i++)
    arguments[count++] = self->for_gnu[i];
  arguments[count++] = "-e";
  arguments[count++] = pattern;
  arguments[count] = ".";
  return search_ms(self, arguments);
}

static double ripgrep_ms(const struct grep_bench *self, const char *pattern, bool by_rules) {
  const char *arguments[16 + LEFT_OUT] = {
      RIPGREP, "-j1", "--no-config", "--no-heading", "-n", "--max-filesize", "1000000"};
  size_t count = 7;
  if (!by_rules) {
    arguments[count++] = "--no-ignore";
    arguments[count++] = "--hidden";
  }
  for (size_t i = 0; i < LEFT_OUT; i++)
    arguments[count++] = self->for_ripgrep[i];
  arguments[count++] = "-e";
  arguments[count++] = pattern;
  arguments[count] = ".";
  return search_ms(self, arguments);
}

static size_t printed_lines(const struct grep_bench *self) {
  int fd = open(self->found, O_RDONLY | O_CLOEXEC);
  struct stat file = {.st_size = 0};
  assert_true(fd >= 0 && fstat(fd, &file) == 0);
  size_t length = (size_t)file.st_size;
  char *text = calloc(length + 1, 1);
  assert_non_null(text);
  assert_int_equal(read(fd, text, length), length);
  (void)close(fd);
  size_t count = count_marks(text, "\n");
  free(text);
  return count;
}

static void measure(struct grep_bench *self, size_t pattern, struct samples *samples) {
  size_t row = pattern * 2;
  size_t found;
  double ours = ours_ms(self, patterns[pattern], false, &found);
  samples_add(samples, row + BESIDE_GNU, OURS, ours);
  samples_add(samples, row + BESIDE_RIPGREP, OURS, ours);
  samples_add(samples, row + BESIDE_GNU, CEILING, gnu_ms(self, patterns[pattern]));
  assert_int_equal(printed_lines(self), found);
  samples_add(samples, row + BESIDE_RIPGREP, CEILING, ripgrep_ms(self, patterns[pattern], false));
  assert_int_equal(printed_lines(self), found);
  assert_true(found > 0);
}

static void measure_by_rules(struct grep_bench *self, struct samples *samples) {
  size_t found;
  samples_add(samples, BY_RULES, OURS, ours_ms(self, patterns[0], true, &found));
  samples_add(samples, BY_RULES, CEILING, ripgrep_ms(self, patterns[0], true));
  assert_int_equal(printed_lines(self), found);
  assert_true(found > 0);
}

static void round_of_all(void *context, size_t round, struct samples *samples) {
  (void)round;
  for (size_t i = 0; i < PATTERNS; i++)
    measure(context, i, samples);
  measure_by_rules(context, samples);
}

/* Makes the tree a repository that ignores names, suffixes and paths that do not exist. */
static void write_ignore_file(const struct grep_bench *self) {
  char path[sizeof self->tree + 16];
  (void)snprintf(path, sizeof path, "%s/.git", self->tree);
  assert_int_equal(mkdir(path, 0700), 0);
  (void)snprintf(path, sizeof path, "%s/.gitignore", self->tree);
  FILE *file = fopen(path, "we");
  assert_non_null(file);
  for (int i = 0; i < IGNORED; i += 6)
    (void)fprintf(file,
                  "none%d/\n*.none%d\n[Nn]one%d.txt\n/src/none%d/*.c\n**/none%d/**\nnone%d*\n", i,
                  i, i, i, i, i);
  assert_int_equal(fclose(file), 0);
}

static void *begin(void) {
  struct grep_bench *self = calloc(1, sizeof *self);
  assert_non_null(self);
  rig_init(&self->rig);
  self->results = rig_connect(&self->rig);
  const char *temporary = getenv("TMPDIR");
  (void)snprintf(self->tree, sizeof self->tree, "%s/grep-XXXXXX",
                 temporary == NULL || *temporary == '\0' ? "/tmp" : temporary);
  if (mkdtemp(self->tree) == NULL)
    fail_msg("no directory %s", self->tree);
  (void)snprintf(self->found, sizeof self->found, "%s.found", self->tree);
  for (size_t i = 0; i < LEFT_OUT; i++) {
    (void)snprintf(self->for_gnu[i], sizeof self->for_gnu[i], "--exclude-dir=%s",
                   default_excludes[i]);
    (void)snprintf(self->for_ripgrep[i], sizeof self->for_ripgrep[i], "-g!%s/",
                   default_excludes[i]);
  }
  (void)source_tree_make(self->tree, FILES, SOURCE_TREE_SEED);
  write_ignore_file(self);
  /* For GNU grep, which decides by the locale what a character is. */
  assert_int_equal(setenv("LC_ALL", "C.UTF-8", 1), 0);
  assert_int_equal(chdir(self->tree), 0);
  self->output = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  assert_true(self->output >= 0);
  self->agent = rig_start_agent(&self->rig, JOB, NULL);
  rig_wait_idle(&self->rig, 1);
  size_t found;
  for (size_t i = 0; i < PATTERNS; i++)
    (void)ours_ms(self, patterns[i], false, &found);
  return self;
}

static void end(void *context) {
  struct grep_bench *self = context;
  (void)dup2(self->output, STDOUT_FILENO);
  (void)close(self->output);
  redisFree(self->results);
  agent_process_free(self->agent);
  rig_release(&self->rig);
  free(self); /* the tree is in a directory that is removed */
}

static const struct row rows[] = {
    {"grep, a literal", "ms", "GNU grep -rnP", RATIO_AT_MOST, 1.0, 0},
    {"grep, a literal, beside rg", "ms", "ripgrep -j1", RATIO_AT_MOST, 1.5, 0},
    {"grep, an alternation", "ms", "GNU grep -rnP", RATIO_AT_MOST, 1.0, 0},
    {"grep, an alternation, beside rg", "ms", "ripgrep -j1", RATIO_AT_MOST, 1.5, 0},
    {"grep, words", "ms", "GNU grep -rnP", RATIO_AT_MOST, 1.0, 0},
    {"grep, words, beside rg", "ms", "ripgrep -j1", RATIO_AT_MOST, 1.5, 0},
    {"grep by ignore files, beside rg", "ms", "ripgrep -j1", RATIO_AT_MOST, 1.5, 0},
};

const struct measurement bench_grep = {"grep",       rows, ROW_COUNT(rows), ROUNDS, begin,
                                       round_of_all, end};
