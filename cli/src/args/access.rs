//! Who may ask a coordinator for what.

use clap::{Args, Subcommand, builder::PossibleValuesParser, builder::TypedValueParser};
use protocol::api::JOIN_USES_MAX;
use protocol::{ApiRole, DurationMs, JoinTokenId, NamespaceName, Role, TokenName};

use super::{Asking, parse_length, parse_reason};
use crate::complete;

#[derive(Subcommand, Debug)]
pub(crate) enum Token {
    /// Make a token for somebody, and write it to standard output: it is told this once
    Create {
        /// What the audit calls whoever has it, such as `ada` or `ci-finance`; never given twice
        #[arg(value_name = "NAME")]
        name: TokenName,
        /// viewer looks; operator applies jobs, acts on runs, drains hosts; admin decides who may
        #[arg(long, value_name = "ROLE", value_parser = roles())]
        role: ApiRole,
        /// Only for jobs of this namespace, as `finance` or `finance/*`; may be given more than
        /// once [default: everything]
        #[arg(long = "namespace", short = 'n', value_name = "NAMESPACE", value_parser = parse_namespace)]
        namespaces: Vec<NamespaceName>,
        /// It ends after so long, such as 90d [default: when it is revoked]
        #[arg(long, value_name = "DURATION", value_parser = parse_length)]
        expires: Option<DurationMs>,
        #[command(flatten)]
        asking: Asking,
    },
    /// Make a token by which machines are let in, and write it to standard output: it is
    /// told this once
    Join(Join),
    /// List tokens, those that are over too
    List {
        #[command(flatten)]
        asking: Asking,
    },
    /// Let whoever has the token in no more, from now on
    Revoke {
        #[arg(value_name = "NAME", add = complete::tokens())]
        name: TokenName,
        /// Why, for those who read it later
        #[arg(long, value_name = "TEXT", value_parser = parse_reason)]
        reason: String,
        #[command(flatten)]
        asking: Asking,
    },
}

#[derive(Args, Debug)]
#[command(subcommand_negates_reqs = true, args_conflicts_with_subcommands = true)]
#[command(override_usage = "\
matins token join [OPTIONS] --uses <N> --address <HOST:PORT>
       matins token join list
       matins token join revoke <ID> --reason <TEXT>")]
pub(crate) struct Join {
    #[command(subcommand)]
    pub(crate) about: Option<AboutJoin>,
    #[command(flatten)]
    pub(crate) make: Option<MakeJoin>,
    // Not part of what makes one: clap finds no optional group that holds another.
    #[command(flatten)]
    pub(crate) asking: Asking,
}

#[derive(Args, Debug)]
pub(crate) struct MakeJoin {
    /// How many it lets in
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(JOIN_USES_MAX)))]
    pub(crate) uses: u32,
    /// What they are; coordinators and witnesses are given their numbers by it
    #[arg(long, value_name = "ROLE", value_parser = super::serve::roles(), default_value = "agent")]
    pub(crate) role: Role,
    /// How long it lets them in, such as 1h
    #[arg(long, value_name = "DURATION", value_parser = parse_length, default_value = "1h")]
    pub(crate) expires: DurationMs,
    /// Only those whose names begin with this
    #[arg(long, value_name = "PREFIX")]
    pub(crate) name_prefix: Option<String>,
    /// Where they reach the API of the coordinator that leads
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) address: String,
}

#[derive(Subcommand, Debug)]
pub(crate) enum AboutJoin {
    /// List join tokens, those that are over too
    List {
        #[command(flatten)]
        asking: Asking,
    },
    /// Let nobody in by this token, from now on; whom it has let in stays
    Revoke {
        /// As the list says it, such as join-3
        #[arg(value_name = "ID")]
        id: JoinTokenId,
        /// Why, for those who read it later
        #[arg(long, value_name = "TEXT", value_parser = parse_reason)]
        reason: String,
        #[command(flatten)]
        asking: Asking,
    },
}

fn roles() -> impl TypedValueParser<Value = ApiRole> {
    let words = ApiRole::ALL.iter().map(|role| role.as_str());
    PossibleValuesParser::new(words).try_map(|word| word.parse::<ApiRole>())
}

/// People who think of its jobs write `finance/*`.
fn parse_namespace(text: &str) -> Result<NamespaceName, String> {
    let name = text.strip_suffix("/*").unwrap_or(text);
    name.parse().map_err(|error| format!("{error}"))
}
