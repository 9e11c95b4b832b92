#include "tests/support/redis_user.h"
#include "tests/test.h"

#define LINE "ACL SETUSER " REDIS_USER " "

enum { RULES_MAX = 64 };

char **redis_user_rules(size_t *count) {
  FILE *readme = fopen("docs/redis.md", "re");
  assert_non_null(readme);
  char line[4096] = "";
  while (strncmp(line, LINE, strlen(LINE)) != 0)
    if (fgets(line, sizeof line, readme) == NULL)
      fail_msg("docs/redis.md has no line `" LINE "…`");
  fclose(readme);
  char **rules = calloc(RULES_MAX, sizeof *rules);
  assert_non_null(rules);
  *count = 0;
  char *rest = NULL;
  for (char *word = strtok_r(line + strlen(LINE), " \n", &rest); word != NULL;
       word = strtok_r(NULL, " \n", &rest)) {
    assert_true(*count < RULES_MAX);
    rules[(*count)++] = strdup(word);
  }
  return rules;
}

void redis_user_free_rules(char **rules, size_t count) {
  for (size_t i = 0; i < count; i++)
    free(rules[i]);
  free(rules);
}

void redis_user_make(redisContext *redis, const char *name, const char *without) {
  size_t count;
  char **rules = redis_user_rules(&count);
  const char *words[RULES_MAX + 3] = {"ACL", "SETUSER", name};
  int length = 3;
  for (size_t i = 0; i < count; i++)
    if (without == NULL || strcmp(rules[i], without) != 0)
      words[length++] = rules[i];
  redisReply *reply = redisCommandArgv(redis, length, words, NULL);
  if (reply == NULL || reply->type == REDIS_REPLY_ERROR)
    fail_msg("the user of docs/redis.md: %s", reply == NULL ? redis->errstr : reply->str);
  freeReplyObject(reply);
  redis_user_free_rules(rules, count);
}
