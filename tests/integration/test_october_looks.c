/* How the server of October reads searches and trees: a search that finds nothing is a proof of
   absence, unless it could not run. */

#include "tests/support/as_user.h"
#include "tests/support/kind_rows.h"
#include "tests/support/october_server.h"
#include "tests/test.h"

TEST_OVERLAP(8)

static const char *path(struct october_server *server, const char *name) {
  return kind_rows_path(server->job, name);
}

static void make_file(struct october_server *server, const char *name, const char *content) {
  kind_rows_file(server->job, name, content);
}

static void expect_look(struct october_server *server, const char *name, enum october_look look) {
  static const char *const words[] = {"matched", "matched nothing", "could not run"};
  enum october_look found = october_search(server, "needle", path(server, name));
  if (found != look)
    job_fail(server->job, "%s: %s, not %s", name, words[found], words[look]);
}

/* --- absence ---------------------------------------------------------------------------------- */

OCTOBER_TEST(no_match_in_a_readable_tree_is_absence) {
  make_file(server, "repo/a.c", "hay\n");
  assert_int_equal(mkdir(path(server, "empty"), 0755), 0);
  expect_look(server, "repo", OCTOBER_NO_MATCH);
  expect_look(server, "repo/a.c", OCTOBER_NO_MATCH);
  expect_look(server, "empty", OCTOBER_NO_MATCH);
}

static const struct october_answer *search(struct october_server *server, const char *name) {
  return october_run(server, &(struct october_step){
                                 .kind = "grep", .path = path(server, name), .pattern = "needle"});
}

static void expect_not_found(struct october_server *server, const char *name) {
  expect_look(server, name, OCTOBER_COULD_NOT_RUN);
  october_expect(server, search(server, name), 1,
                 job_format(server->job, "path not found: %s", path(server, name)), NULL);
}

OCTOBER_TEST(a_missing_path_is_not_absence) {
  make_file(server, "repo/a.c", "hay\n");
  assert_int_equal(symlink("nowhere", path(server, "repo/link")), 0);
  expect_not_found(server, "rpeo");
  expect_not_found(server, "repo/b.c");
  expect_not_found(server, "repo/a.c/b");
  expect_not_found(server, "repo/link");
}

OCTOBER_TEST(a_dangling_link_below_the_root_is_absence) {
  make_file(server, "repo/a.c", "hay\n");
  assert_int_equal(symlink("nowhere", path(server, "repo/link")), 0);
  expect_look(server, "repo", OCTOBER_NO_MATCH);
}

static void start_as_nobody(struct october_server *server) {
  server->job->setup.uid = NOBODY;
  october_start_agent(server, NULL);
}

OCTOBER_TEST_NO_AGENT(no_match_with_unreadable_files_is_not_absence) {
  start_as_nobody(server);
  make_file(server, "dirs/a.c", "hay\n");
  make_file(server, "dirs/closed/b.c", "needle\n");
  make_file(server, "files/a.c", "hay\n");
  make_file(server, "files/secret", "needle\n");
  assert_int_equal(chmod(path(server, "dirs/closed"), 0700), 0);
  assert_int_equal(chmod(path(server, "files/secret"), 0600), 0);
  static const char *const names[][2] = {{"dirs", "dirs/closed"},
                                         {"files", "files/secret"},
                                         {"dirs/closed", "dirs/closed"},
                                         {"files/secret", "files/secret"}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    expect_look(server, names[i][0], OCTOBER_COULD_NOT_RUN);
    const struct october_answer *answer = search(server, names[i][0]);
    assert_int_equal(answer->exit_code, 1);
    const char *said = strstr(answer->error_message, strrchr(names[i][1], '/') + 1);
    if (said == NULL)
      job_fail(server->job, "%s is not named: %s", names[i][1], answer->error_message);
  }
}

/* Matches are an answer, with a warning on standard error. */
OCTOBER_TEST_NO_AGENT(a_match_with_unreadable_files_is_a_match) {
  start_as_nobody(server);
  make_file(server, "repo/a.c", "needle\n");
  make_file(server, "repo/closed/b.c", "needle\n");
  make_file(server, "repo/secret", "needle\n");
  assert_int_equal(chmod(path(server, "repo/closed"), 0700), 0);
  assert_int_equal(chmod(path(server, "repo/secret"), 0600), 0);
  const struct october_answer *answer = search(server, "repo");
  assert_int_equal(october_look_at(answer), OCTOBER_MATCHED);
  assert_non_null(answer->errors.text);
}

/* The agent does not look into excluded files, so that they may be unreadable. */
OCTOBER_TEST_NO_AGENT(excluded_files_need_not_be_readable) {
  start_as_nobody(server);
  make_file(server, "repo/a.c", "hay\n");
  make_file(server, "repo/node_modules/b.c", "needle\n");
  assert_int_equal(chmod(path(server, "repo/node_modules"), 0700), 0);
  expect_look(server, "repo", OCTOBER_NO_MATCH);
}

OCTOBER_TEST(an_invalid_pattern_is_not_absence) {
  make_file(server, "repo/a.c", "hay\n");
  assert_int_equal(october_search(server, "(needle", path(server, "repo")), OCTOBER_COULD_NOT_RUN);
}

/* --- a named file ----------------------------------------------------------------------------- */

static void make_large(struct october_server *server, const char *name, const char *last) {
  enum { SIZE = 2000000 };
  char *text = malloc(SIZE + 64);
  assert_non_null(text);
  for (size_t i = 0; i < SIZE; i++)
    text[i] = i % 50 == 49 ? '\n' : 'h';
  strcpy(text + SIZE, last);
  make_file(server, name, text);
  free(text);
}

OCTOBER_TEST(a_named_large_file_is_searched) {
  make_large(server, "repo/package-lock.json", "needle\n");
  expect_look(server, "repo/package-lock.json", OCTOBER_MATCHED);
  make_large(server, "repo/other", "hay\n");
  expect_look(server, "repo/other", OCTOBER_NO_MATCH);
}

/* Like ripgrep. A `stderr` event reports it (test_file_kinds.c); the server's conclusion is the
   same. */
OCTOBER_TEST(other_large_files_are_skipped) {
  make_large(server, "repo/package-lock.json", "needle\n");
  expect_look(server, "repo", OCTOBER_NO_MATCH);
}

static void make_binary(struct october_server *server, const char *name) {
  FILE *file = fopen(path(server, name), "w");
  assert_non_null(file);
  assert_int_equal(fwrite("a\0b\nthe\0needle\n", 1, 15, file), 15);
  assert_int_equal(fclose(file), 0);
}

OCTOBER_TEST(a_named_file_with_a_nul_is_searched) {
  make_file(server, "repo/a.c", "hay\n");
  make_binary(server, "repo/nul.bin");
  expect_look(server, "repo/nul.bin", OCTOBER_MATCHED);
  const struct october_answer *answer = search(server, "repo/nul.bin");
  assert_string_equal(answer->output_content,
                      "[{\"path\":\"nul.bin\",\"line\":2,\"text\":\"the\\u0000needle\","
                      "\"kind\":\"match\"}]");
  expect_look(server, "repo", OCTOBER_NO_MATCH);
}

OCTOBER_TEST(a_named_file_is_searched_wherever_it_is) {
  static const char *const names[] = {"repo/.env", "repo/bin/tool", "repo/ignored.log",
                                      "repo/.git/config", "repo/.agentsmith/reference/page.html"};
  make_file(server, "repo/.gitignore", "*.log\n");
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    make_file(server, names[i], "needle\n");
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    expect_look(server, names[i], OCTOBER_MATCHED);
    assert_int_equal(october_look_at(search(server, names[i])), OCTOBER_MATCHED);
  }
}

/* --- what a search looks at ------------------------------------------------------------------- */

static void make_repository(struct october_server *server) {
  static const char *const names[] = {"repo/src/a.c",
                                      "repo/.env",
                                      "repo/.github/ci.yml",
                                      "repo/out/b.c",
                                      "repo/debug.log",
                                      "repo/node_modules/c.js",
                                      "repo/.git/d",
                                      "repo/sub/.hidden/e.c",
                                      "repo/.agentsmith/reference/page.html",
                                      "repo/sub/.agentsmith/reference/page.html"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    make_file(server, names[i], "needle\n");
  make_file(server, "repo/.gitignore", "out/\n*.log\n");
  make_file(server, "repo/.git/HEAD", "ref: refs/heads/main\n");
}

/* The names of the rows in order, separated by spaces. */
static const char *find(struct october_server *server, const char *name, const char *glob,
                        bool search_hidden) {
  const struct october_answer *answer =
      october_run(server, &(struct october_step){.kind = "grep",
                                                 .working_directory = path(server, "repo"),
                                                 .path = path(server, name),
                                                 .pattern = "needle",
                                                 .glob = glob,
                                                 .output_mode = "filesWithMatches",
                                                 .search_hidden = search_hidden});
  october_expect(server, answer, 0, NULL, answer->output_content);
  cJSON *rows = job_own(server->job, cJSON_Parse(answer->output_content));
  const char *names = "";
  const cJSON *row;
  cJSON_ArrayForEach(row, rows) names =
      job_format(server->job, "%s%s%s", names, *names == '\0' ? "" : " ", job_text(row, "path"));
  return names;
}

OCTOBER_TEST(a_search_of_the_repository_keeps_its_rules) {
  make_repository(server);
  assert_string_equal(find(server, "repo", NULL, false), "src/a.c");
  assert_string_equal(find(server, "repo/out", NULL, false), "b.c");
  assert_string_equal(find(server, "repo/.github", NULL, false), "ci.yml");
}

OCTOBER_TEST(a_search_of_everything_still_skips_the_fixed_directories) {
  make_repository(server);
  assert_string_equal(find(server, "repo", NULL, true),
                      ".env .github/ci.yml debug.log out/b.c src/a.c "
                      "sub/.agentsmith/reference/page.html sub/.hidden/e.c");
}

/* The count shows that a search without a match was incomplete. */
OCTOBER_TEST(skipped_files_are_counted) {
  make_repository(server);
  const struct october_answer *answer =
      october_run(server, &(struct october_step){.kind = "grep",
                                                 .working_directory = path(server, "repo"),
                                                 .path = path(server, "repo"),
                                                 .pattern = "needle"});
  assert_int_equal(answer->exit_code, 0);
  assert_non_null(answer->errors.text);
  answer = october_run(server, &(struct october_step){.kind = "grep",
                                                      .working_directory = path(server, "repo"),
                                                      .path = path(server, "repo"),
                                                      .pattern = "needle",
                                                      .search_hidden = true});
  assert_null(answer->errors.text);
}

OCTOBER_TEST(a_positive_glob_finds_hidden_and_ignored_files) {
  make_repository(server);
  assert_string_equal(find(server, "repo", ".env", false), ".env");
  assert_string_equal(find(server, "repo", "*.log", false), "debug.log");
  assert_string_equal(find(server, "repo", "*.yml", false), "");
}

/* Models write both forms. */
OCTOBER_TEST(a_glob_with_a_slash_starts_at_the_root_or_the_path) {
  make_repository(server);
  assert_string_equal(find(server, "repo/src", "src/*.c", false), "a.c");
  assert_string_equal(find(server, "repo/src", "*.c", false), "a.c");
  assert_string_equal(find(server, "repo", "src/*.c", false), "src/a.c");
}

OCTOBER_TEST(a_negated_glob_excludes_files) {
  make_repository(server);
  assert_string_equal(find(server, "repo", "!*.c", true),
                      ".env .github/ci.yml debug.log sub/.agentsmith/reference/page.html");
  assert_string_equal(find(server, "repo/src", "!src/a.c", false), "");
  assert_string_equal(find(server, "repo/src", "!other/a.c", false), "a.c");
}

/* --- the reference websites ------------------------------------------------------------------- */

OCTOBER_TEST(reference_websites_are_found_only_from_within) {
  make_repository(server);
  make_file(server, "repo/.agentsmith/notes.md", "needle\n");
  assert_string_equal(find(server, "repo/.agentsmith", NULL, true), "notes.md");
  assert_string_equal(find(server, "repo/.agentsmith/reference", NULL, true), "page.html");
  assert_string_equal(find(server, "repo/./src//../.agentsmith/reference/", NULL, true),
                      "page.html");
}

static const char *tree(struct october_server *server, const char *name) {
  const struct october_answer *answer =
      october_run(server, &(struct october_step){.kind = "directoryTree",
                                                 .working_directory = path(server, "repo"),
                                                 .path = path(server, name)});
  october_expect(server, answer, 0, NULL, answer->output_content);
  return answer->output_content;
}

OCTOBER_TEST(reference_websites_appear_in_listings_but_not_in_trees) {
  make_repository(server);
  assert_string_equal(tree(server, "repo/.agentsmith"), ".agentsmith/");
  assert_string_equal(tree(server, "repo/.agentsmith/reference"), "reference/\n└── page.html");
  assert_non_null(strstr(tree(server, "repo/sub"), "reference/"));
  const struct october_answer *answer =
      october_run(server, &(struct october_step){.kind = "listFiles",
                                                 .working_directory = path(server, "repo"),
                                                 .path = path(server, "repo/.agentsmith")});
  assert_non_null(strstr(answer->output_content, ".agentsmith/reference\""));
}

/* --- trees of many entries -------------------------------------------------------------------- */

#define MARKER "… [truncated at 1000 entries — narrow the root or lower max_depth]"

static void make_many(struct october_server *server, const char *directory, int from, int to) {
  for (int i = from; i < to; i++)
    make_file(server, job_format(server->job, "%s/f%04d", directory, i), "");
}

static int count_lines(const char *text) {
  int lines = 1;
  while ((text = strchr(text, '\n')) != NULL) {
    lines++;
    text++;
  }
  return lines;
}

static void expect_cut(struct october_server *server, const char *text) {
  const char *last = strrchr(text, '\n') + 1;
  if (strcmp(last, MARKER) != 0)
    job_fail(server->job, "the last line is `%s`", last);
  assert_int_equal(count_lines(text), 1 + 1000 + 1);
}

OCTOBER_TEST(a_large_directory_is_cut_at_any_depth) {
  make_many(server, "repo/assets/icons", 0, 1200);
  make_many(server, "repo/src", 0, 3);
  make_file(server, "repo/README.md", "");
  expect_cut(server, tree(server, "repo"));
}
