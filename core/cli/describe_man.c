/* SPDX-License-Identifier: Apache-2.0 */
/* describe_man.c - manual pages from the table of commands.
 *
 * Help is laid out for a terminal: paragraphs begin in the first column, entries of lists behind two
 * spaces, as "  TERM   text", and what goes on with an entry is indented further. From that come
 * paragraphs and tagged paragraphs that man(1) fills to the reader's width. */
#include "describe.h"

#include <stdio.h>
#include <string.h>

/* As it is: what troff would take for a request, an escape or a typographer's sign is escaped. */
static void put_text(const char *text, size_t len)
{
    if (len > 0 && (text[0] == '.' || text[0] == '\'')) {
        fputs("\\&", stdout);
    }
    for (size_t i = 0; i < len; i++) {
        switch (text[i]) {
        case '\\':
            fputs("\\e", stdout);
            break;
        case '-':
            fputs("\\-", stdout);
            break;
        case '\'':
            fputs("\\(aq", stdout);
            break;
        case '`':
            fputs("\\(ga", stdout);
            break;
        case '^':
            fputs("\\(ha", stdout);
            break;
        case '~':
            fputs("\\(ti", stdout);
            break;
        default:
            putchar(text[i]);
        }
    }
}

static void put_line(const char *text, size_t len)
{
    put_text(text, len);
    putchar('\n');
}

/* The column where the text behind a term begins; 0 if the line has no term. */
static size_t text_column(const char *line, size_t len)
{
    for (size_t i = 2; i + 2 < len; i++) {
        if (line[i] == ' ' && line[i + 1] == ' ') {
            return i + strspn(line + i, " ");
        }
    }
    return 0;
}

static size_t trimmed(const char *text, size_t len)
{
    while (len > 0 && text[len - 1] == ' ') {
        len--;
    }
    return len;
}

static void put_help(const char *help)
{
    size_t column = 0; /* where the entry's text begins; 0 outside of entries */

    while (*help != '\0') {
        size_t len = strcspn(help, "\n"), indent = strspn(help, " ");

        if (len == 0) {
            puts(".PP");
            column = 0;
        } else if (indent == 2) {
            size_t text = text_column(help, len);

            if (text > 0) {
                puts(".TP");
                put_line(help + 2, trimmed(help + 2, text - 2));
                put_line(help + text, len - text);
            } else {
                puts(".PP");
                put_line(help + 2, len - 2);
            }
            column = text;
        } else if (indent > 0) {
            if (column > 0 && indent != column) {
                puts(".br");
            }
            put_line(help + indent, len - indent);
        } else {
            if (column > 0) {
                puts(".PP");
            }
            put_line(help, len);
            column = 0;
        }
        help += len + (help[len] == '\n');
    }
}

static void put_head(const char *dash, const char *name, const char *summary)
{
    fputs(".TH KVSTORE", stdout);
    fputs(dash, stdout);
    for (const char *c = name; *c != '\0'; c++) {
        putchar(*c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c);
    }
    printf(" 1 \"\" \"kvstore %s\" \"kvstore\"\n.nh\n.ad l\n.SH NAME\nkvstore%s", kvs_version(),
           dash);
    put_text(name, strlen(name));
    fputs(" \\- ", stdout);
    put_line(summary, strlen(summary));
}

static void put_exit_status(void)
{
    puts(".SH EXIT STATUS\n"
         "0 done, 1 a problem told on standard error, 2 wrong usage.");
}

static void put_see_also(const command_t *commands, size_t n_commands)
{
    puts(".SH SEE ALSO");
    for (size_t i = 0; i < n_commands; i++) {
        fputs(".BR kvstore\\-", stdout);
        put_text(commands[i].name, strlen(commands[i].name));
        puts(i + 1 < n_commands ? " (1)," : " (1)");
    }
}

void describe_man_overview(const command_t *commands, size_t n_commands)
{
    put_head("", "", "show, test and run the backends of libkvstore");
    puts(".SH SYNOPSIS\n"
         ".B kvstore\nCOMMAND [ARGUMENT...]\n.br\n"
         ".B kvstore\nCOMMAND \\-\\-help\n.br\n"
         ".B kvstore\n\\-\\-version\n"
         ".SH DESCRIPTION\n"
         "libkvstore keeps the parameters and gradients of data\\-parallel training in step. Each\n"
         "way of doing that, a backend, is a plugin: a shared object and a manifest. The command\n"
         "shows what is installed and why something can\\(aqt be used, turns plugins on and off,\n"
         "tests and measures them, and starts jobs of several processes.\n"
         ".SH COMMANDS");
    for (size_t i = 0; i < n_commands; i++) {
        fputs(".TP\n.BR kvstore\\-", stdout);
        put_text(commands[i].name, strlen(commands[i].name));
        puts(" (1)");
        put_line(commands[i].summary, strlen(commands[i].summary));
    }
    put_exit_status();
    puts(".SH ENVIRONMENT\n"
         ".TP\nKVSTORE_PLUGIN_PATH\n"
         "where plugins are searched instead: manifests and their directories, with \\(aq:\\(aq\n"
         "between them. An empty element stands for the usual places.\n"
         ".TP\nKVSTORE_PLUGINS\n"
         "globs over the names of plugins, with \\(aq,\\(aq between them: only those are used.\n"
         "\\(aq\\-\\(aq before one turns off what it matches.\n"
         ".TP\nKVSTORE_LOG\n"
         "error, warn, info, debug or trace; with an area behind a comma, that area alone.\n"
         ".PP\n"
         "Every other setting has a variable, too: see\n"
         ".BR kvstore\\-config (1).\n"
         ".SH FILES\n"
         ".TP\n/etc/kvstore/kvstore.conf, $XDG_CONFIG_HOME/kvstore/kvstore.conf\n"
         "settings, a line each: name = value.\n"
         ".TP\n/etc/kvstore/plugins.d, $XDG_DATA_HOME/kvstore/plugins.d\n"
         "manifests of plugins, and masks, which turn plugins off.");
    put_see_also(commands, n_commands);
}

void describe_man_command(const command_t *command)
{
    put_head("\\-", command->name, command->summary);
    fputs(".SH SYNOPSIS\n.B kvstore ", stdout);
    put_line(command->name, strlen(command->name));
    put_line(command->usage, strlen(command->usage));
    puts(".SH DESCRIPTION");
    put_help(command->help);
    put_exit_status();
    puts(".SH SEE ALSO\n.BR kvstore (1)");
}
