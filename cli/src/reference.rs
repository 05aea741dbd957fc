//! The command line as others read it: shells, manual pages, `docs/CLI.md`.

use std::fs;
use std::io;
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_complete::env::{Bash, EnvCompleter, Fish, Zsh};

use crate::args::{Cli, Completions, Man, Shell};
use crate::complete::COMPLETE;
use crate::failure::Failure;
use crate::output::{print_bytes, talk};
use crate::text::count;

const NAME: &str = "matins";

/// Prints what has the shell ask this program for completions.
pub(crate) fn completions(options: &Completions) -> Result<(), Failure> {
    let shell: &dyn EnvCompleter = match options.shell {
        Shell::Bash => &Bash,
        Shell::Zsh => &Zsh,
        Shell::Fish => &Fish,
    };
    let mut script = Vec::new();
    shell
        .write_registration(COMPLETE, NAME, NAME, NAME, &mut script)
        .expect("writing into memory does not fail");
    print_bytes(&script)
}

/// Writes a page for the program and one for each command.
pub(crate) fn man(options: &Man) -> Result<(), Failure> {
    let written = write_pages(&options.dir).map_err(|error| {
        Failure::of_error(
            format!("writing manual pages to {}", options.dir.display()),
            &error,
            "name a directory that you may write to",
        )
    })?;
    let page = options.dir.join("matins.1");
    talk(&format!(
        "{} written; read the first with `man -l {}`",
        count(written as u64, "page"),
        page.display()
    ));
    Ok(())
}

fn write_pages(directory: &Path) -> io::Result<usize> {
    fs::create_dir_all(directory)?;
    let commands = all_commands();
    for command in &commands {
        let page = clap_mangen::Man::new(command.clone())
            .manual("Matins")
            .source(format!("Matins {}", env!("CARGO_PKG_VERSION")));
        page.generate_to(directory)?;
    }
    Ok(commands.len())
}

/// The program and every command below it, each by its whole name with dashes between.
fn all_commands() -> Vec<Command> {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let mut commands = Vec::new();
    collect(&command, NAME.to_owned(), &mut commands);
    commands
}

fn collect(command: &Command, name: String, commands: &mut Vec<Command>) {
    let spoken = name.replace('-', " ");
    commands.push(
        command
            .clone()
            .name(name.clone())
            .display_name(name.clone())
            .bin_name(spoken),
    );
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        collect(sub, format!("{name}-{}", sub.get_name()), commands);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fmt::Write;
    use std::path::PathBuf;

    use super::*;

    const REFERENCE: &str = "../docs/CLI.md";

    fn reference() -> String {
        let mut text = String::from(
            "# The command line\n\n\
             What `matins --help` and `matins COMMAND --help` say, of every command. Written by \
             `make cli-reference`; a test holds\nit against the program.\n",
        );
        for mut command in all_commands() {
            let name = command.get_bin_name().unwrap_or(NAME).to_owned();
            let _ = write!(
                text,
                "\n## `{name}`\n\n```\n{}\n```\n",
                command.render_long_help().to_string().trim_end()
            );
        }
        text
    }

    #[test]
    fn the_reference_is_true() {
        let now = reference();
        if std::env::var_os("MATINS_WRITE_CLI").is_some() {
            fs::write(REFERENCE, &now).unwrap();
        }
        let written = fs::read_to_string(REFERENCE).unwrap();
        assert!(
            written == now,
            "docs/CLI.md is not what the program says: `make cli-reference` writes it anew"
        );
    }

    fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, found);
            } else if path.extension().is_some_and(|end| end == "rs") {
                found.push(path);
            }
        }
    }

    #[test]
    fn every_command_that_a_message_names_is_one() {
        let commands = all_commands();
        let known: BTreeSet<&str> = commands.iter().filter_map(|c| c.get_bin_name()).collect();
        let mut files = Vec::new();
        for part in [
            "../agent",
            "../coordinator",
            "../jobs",
            "../protocol",
            "src",
        ] {
            sources(Path::new(part), &mut files);
        }
        let mut named = 0;
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            for said in text.split("`matins ").skip(1) {
                let word = said.split(|c: char| !c.is_ascii_lowercase()).next();
                let Some(word) = word.filter(|word| !word.is_empty()) else {
                    continue;
                };
                let command = format!("{NAME} {word}");
                assert!(known.contains(&*command), "{}: `{command}`", file.display());
                named += 1;
            }
        }
        assert!(named > 50, "only {named} were found");
    }

    #[test]
    fn every_command_has_a_page() {
        let directory = tempfile::tempdir().unwrap();
        let written = write_pages(directory.path()).unwrap();
        let pages = fs::read_dir(directory.path()).unwrap().count();
        assert_eq!(pages, written);
        for page in ["matins.1", "matins-get-runs.1", "matins-agent-revoke.1"] {
            let text = fs::read_to_string(directory.path().join(page)).unwrap();
            assert!(text.contains(".SH NAME"), "{page}: {text}");
        }
    }
}
