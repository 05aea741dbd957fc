//! Who may ask a coordinator for what.

use clap::{Subcommand, builder::PossibleValuesParser, builder::TypedValueParser};
use protocol::api::JOIN_USES_MAX;
use protocol::{ApiRole, DurationMs, NamespaceName, TokenName};

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
    /// Make a token by which hosts are let in, and write it to standard output: it is told this once
    Join {
        /// How many hosts it lets in
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(JOIN_USES_MAX)))]
        uses: u32,
        /// How long it lets them in, such as 1h
        #[arg(long, value_name = "DURATION", value_parser = parse_length, default_value = "1h")]
        expires: DurationMs,
        /// Only hosts whose names begin with this
        #[arg(long, value_name = "PREFIX")]
        name_prefix: Option<String>,
        /// Where the hosts reach the coordinator's API
        #[arg(long, value_name = "HOST:PORT")]
        address: String,
        #[command(flatten)]
        asking: Asking,
    },
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

fn roles() -> impl TypedValueParser<Value = ApiRole> {
    let words = ApiRole::ALL.iter().map(|role| role.as_str());
    PossibleValuesParser::new(words).try_map(|word| word.parse::<ApiRole>())
}

/// People who think of its jobs write `finance/*`.
fn parse_namespace(text: &str) -> Result<NamespaceName, String> {
    let name = text.strip_suffix("/*").unwrap_or(text);
    name.parse().map_err(|error| format!("{error}"))
}
