/* chanctl completion, and the answers that the shell's function asks for. */
#include "cli/completion.h"

#include <stdlib.h>
#include <string.h>

#include "cli/output.h"

enum { COMPLETION_MS = 1000, COMPLETION_IDS = 1000 };

/* A line, read as far as completion needs it. */
struct line {
    const struct noun *noun;
    const struct command *command;
    const struct option *pending; /* its value stands where the cursor is */
    const char *socket_path;
    size_t positionals; /* complete ones, behind noun and verb */
    bool only_positionals;
    bool lost; /* a noun or verb that does not exist */
};

static void offer(FILE *out, const char *prefix, const char *word)
{
    if (strncmp(word, prefix, strlen(prefix)) == 0)
        (void)fprintf(out, "%s\n", word);
}

static void offer_words(FILE *out, const char *prefix, const char *words)
{
    while (*words != '\0') {
        size_t length = strcspn(words, " ");
        if (length >= strlen(prefix) && strncmp(words, prefix, strlen(prefix)) == 0)
            (void)fprintf(out, "%.*s\n", (int)length, words);
        words += length;
        words += strspn(words, " ");
    }
}

static void offer_formats(FILE *out, const char *prefix, const struct command *command)
{
    unsigned int formats = command == NULL ? FORMATS_OBJECT : command->formats;
    for (int i = 0; i < FORMAT_COUNT; i++)
        if ((formats & (1u << i)) != 0)
            offer(out, prefix, format_word((enum format)i));
}

static void offer_options(FILE *out, const char *prefix, const struct option *options)
{
    for (const struct option *option = options; option != NULL && option->name != NULL; option++) {
        char word[64];
        (void)snprintf(word, sizeof word, "--%s", option->name);
        offer(out, prefix, word);
    }
}

static void offer_ids(FILE *out, const char *prefix, const char *socket_path, enum value_kind kind,
                      completion_ids_fn ids)
{
    char *text = NULL;
    size_t size = 0;
    FILE *all = open_memstream(&text, &size);
    if (all == NULL)
        return;
    ids(all, socket_path, kind);
    if (fclose(all) == 0) {
        char *rest = NULL;
        for (char *id = strtok_r(text, "\n", &rest); id != NULL; id = strtok_r(NULL, "\n", &rest))
            offer(out, prefix, id);
    }
    free(text);
}

static void offer_value(FILE *out, const char *prefix, const struct line *line, enum value_kind kind,
                        const char *words, completion_ids_fn ids)
{
    switch (kind) {
    case VALUE_FILE:
        (void)fputs(":file\n", out);
        break;
    case VALUE_WORDS:
        offer_words(out, prefix, words == NULL ? "" : words);
        break;
    case VALUE_FORMAT:
        offer_formats(out, prefix, line->command);
        break;
    case VALUE_TEMPLATE_ID:
    case VALUE_SANDBOX_ID:
    case VALUE_LINK_ID:
        offer_ids(out, prefix, line->socket_path, kind, ids);
        break;
    case VALUE_NONE:
    case VALUE_TEXT:
    default:
        break;
    }
}

static void take_option(struct line *line, const char *word)
{
    const struct option *const tables[] = {global_options,
                                           line->command == NULL ? NULL : line->command->options};
    const char *value = NULL;
    const struct option *option = option_of_word(word, tables, 2, &value);
    if (option == NULL || option->kind == VALUE_NONE)
        return;
    if (value == NULL)
        line->pending = option;
    else if (strcmp(option->name, "socket") == 0)
        line->socket_path = value;
}

static void take_word(struct line *line, const char *word)
{
    if (line->pending != NULL) {
        if (strcmp(word, "=") == 0)
            return; /* bash cuts --size=1M into three words */
        if (strcmp(line->pending->name, "socket") == 0)
            line->socket_path = word;
        line->pending = NULL;
    } else if (!line->only_positionals && strcmp(word, "--") == 0) {
        line->only_positionals = true;
    } else if (!line->only_positionals && word[0] == '-' && word[1] != '\0') {
        take_option(line, word);
    } else if (line->noun == NULL) {
        line->noun = noun_find(word);
        line->lost = line->noun == NULL;
        if (line->noun != NULL)
            line->command = command_find(line->noun, NULL);
    } else if (line->command == NULL) {
        line->command = command_find(line->noun, word);
        line->lost = line->lost || line->command == NULL;
    } else {
        line->positionals++;
    }
}

static void offer_next(FILE *out, const struct line *line, const char *prefix, completion_ids_fn ids)
{
    if (line->pending != NULL) {
        offer_value(out, strcmp(prefix, "=") == 0 ? "" : prefix, line, line->pending->kind,
                    line->pending->words, ids);
        return;
    }
    if (!line->only_positionals && prefix[0] == '-') {
        offer_options(out, prefix, line->command == NULL ? NULL : line->command->options);
        offer_options(out, prefix, global_options);
        return;
    }
    if (line->noun == NULL) {
        for (size_t i = 0; i < NOUN_COUNT; i++)
            offer(out, prefix, nouns[i]->name);
    } else if (line->command == NULL) {
        for (size_t i = 0; i < line->noun->command_count; i++)
            offer(out, prefix, line->noun->commands[i].verb);
    } else if (line->positionals < line->command->positionals_max) {
        offer_value(out, prefix, line, line->command->positional_kind, NULL, ids);
    }
}

void completion_print(FILE *out, const char *const words[], size_t word_count, completion_ids_fn ids)
{
    struct line line = {0};
    if (word_count == 0)
        return;
    for (size_t i = 0; i + 1 < word_count && !line.lost; i++)
        take_word(&line, words[i]);
    if (!line.lost)
        offer_next(out, &line, words[word_count - 1], ids);
}

/* Nobody waits long for a completion, and no error is shown in the middle of a command line. */
static void ids_of_daemon(FILE *out, const char *socket_path, enum value_kind kind)
{
    const char *from_environment = getenv("CHAN_SOCKET");
    if (socket_path == NULL)
        socket_path = from_environment != NULL ? from_environment : CHAN_CLIENT_DEFAULT_SOCKET;
    struct chan_client *client = NULL;
    if (chan_client_new(socket_path, &client) != 0)
        return;
    chan_client_set_timeouts(client, COMPLETION_MS, COMPLETION_MS);
    auto_reply struct chan_reply reply = CHAN_REPLY_INIT;
    const char *list = "sandboxes";
    const char *id = "sandboxID";
    int result = 0;
    if (kind == VALUE_TEMPLATE_ID) {
        list = "templates";
        id = "templateID";
        result = chan_client_template_list(client, COMPLETION_IDS, NULL, &reply);
    } else if (kind == VALUE_LINK_ID) {
        list = "links";
        id = "linkID";
        result = chan_client_link_list(client, COMPLETION_IDS, NULL, NULL, &reply);
    } else {
        result = chan_client_sandbox_list(client, COMPLETION_IDS, NULL, &reply);
    }
    chan_client_free(client);
    if (result != 0)
        return;
    auto_json json_t *page = json_loadb(reply.body, reply.body_bytes, 0, NULL);
    const json_t *objects = json_object_get(page, list);
    for (size_t i = 0; i < json_array_size(objects); i++)
        (void)fprintf(out, "%s\n", json_text(json_array_get(objects, i), id));
}

int completion_run(FILE *out, const char *const words[], size_t word_count)
{
    completion_print(out, words, word_count, ids_of_daemon);
    return EXIT_CODE_OK;
}

static int completion_bash(struct context *context)
{
    (void)fputs("# bash completion of chanctl, as 'chanctl completion bash' prints it\n"
                "_chanctl()\n"
                "{\n"
                "    local answer\n"
                "    answer=$(\"${COMP_WORDS[0]}\" " COMPLETION_COMMAND
                " \"${COMP_WORDS[@]:1:COMP_CWORD}\" 2>/dev/null)\n"
                "    COMPREPLY=()\n"
                "    if [[ $answer == :file ]]; then\n"
                "        compopt -o filenames 2>/dev/null\n"
                "        local word=${COMP_WORDS[COMP_CWORD]}\n"
                "        [[ $word == = ]] && word=\n"
                "        mapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n"
                "    elif [[ -n $answer ]]; then\n"
                "        mapfile -t COMPREPLY <<<\"$answer\"\n"
                "    fi\n"
                "}\n"
                "complete -F _chanctl chanctl\n",
                context->out);
    return EXIT_CODE_OK;
}

static const struct command commands[] = {
    {"completion", "bash", NULL, completion_bash, "", 0, 0, VALUE_NONE, NULL, 1u << FORMAT_TABLE, true,
     "Print the completion for bash", "source <(chanctl completion bash)"},
};

const struct noun noun_completion = {"completion", "Completion for shells", commands,
                                     sizeof commands / sizeof commands[0]};
