//! The machines of a trace: `id name nodes processors speed memory-in-kilobytes`, a line a cluster.

use super::Problem;

/// One cluster: nodes that are alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machines {
    pub name: String,
    pub nodes: u32,
    pub processors: u32,
    pub memory_bytes: u64,
}

pub fn parse_machines(text: &str) -> Result<Vec<Machines>, Vec<Problem>> {
    let (mut machines, mut problems) = (Vec::new(), Vec::new());
    for (at, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        match parse_line(line) {
            Some(cluster) => machines.push(cluster),
            None => problems.push(Problem {
                line: at + 1,
                what: "is not `id name nodes processors speed memory-in-kilobytes`".to_owned(),
            }),
        }
    }
    if problems.is_empty() {
        Ok(machines)
    } else {
        Err(problems)
    }
}

fn parse_line(line: &str) -> Option<Machines> {
    let mut words = line.split_whitespace();
    let (_, name) = (words.next()?, words.next()?);
    let (nodes, processors) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let (_, kilobytes) = (words.next()?, words.next()?);
    Some(Machines {
        name: name.to_owned(),
        nodes,
        processors,
        memory_bytes: kilobytes.parse::<u64>().ok()?.checked_mul(1024)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_a_cluster() {
        let zewura = Machines {
            name: "zewura".to_owned(),
            nodes: 20,
            processors: 80,
            memory_bytes: 529_426_432 * 1024,
        };
        assert_eq!(
            parse_machines("0\tzewura\t20\t80\t1\t529426432\n\n"),
            Ok(vec![zewura])
        );
        let problems = parse_machines("0 zewura 20\n").unwrap_err();
        assert_eq!(problems[0].line, 1);
    }
}
