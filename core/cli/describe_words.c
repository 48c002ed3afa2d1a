/* SPDX-License-Identifier: Apache-2.0 */
/* describe_words.c - the options of each command, found in the table of commands: in the usage, and
 * where lines of the help begin with one. */
#include "describe.h"

#include <stdio.h>
#include <string.h>

static size_t option_length(const char *text)
{
    return strspn(text, "-abcdefghijklmnopqrstuvwxyz0123456789");
}

/* The option that `text` begins with, unless `told` has it, too. A bare "--" is none. */
static void put_option(const char *text, const char *told)
{
    size_t len = option_length(text);

    for (; (told = strstr(told, "--")) != NULL; told += 2) {
        if (option_length(told) == len && strncmp(told, text, len) == 0) {
            return;
        }
    }
    if (len > 2) {
        printf(" %.*s", (int)len, text);
    }
}

static void put_command(const command_t *command)
{
    fputs(command->name, stdout);
    for (const char *at = command->usage; (at = strstr(at, "--")) != NULL; at += 2) {
        put_option(at, "");
    }
    for (const char *line = command->help; *line != '\0';) {
        size_t len = strcspn(line, "\n");

        if (strncmp(line, "  --", 4) == 0) {
            put_option(line + 2, command->usage);
        } else if (strncmp(line, "  -", 3) == 0 && len > 8 && strncmp(line + 4, ", --", 4) == 0) {
            put_option(line + 6, command->usage);
        }
        line += len + (line[len] == '\n');
    }
    puts(" --help");
}

void describe_words(const command_t *commands, size_t n_commands)
{
    for (size_t i = 0; i < n_commands; i++) {
        put_command(&commands[i]);
    }
}
