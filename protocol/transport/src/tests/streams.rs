//! Frames and raw bytes between two ends that have met.

use std::pin::Pin;
use std::task::Poll;

use protocol::message::FRAME_BYTES_MAX;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

use super::pair::{Pair, bounded};
use crate::settings::{
    BULK_STREAMS_TO_DIALER_MAX, BULK_STREAMS_TO_LISTENER_MAX, STREAM_WINDOW_BYTES,
};
use crate::{
    BulkReceiver, BulkSender, CloseReason, Connection, ControlReceiver, ControlSender,
    ReceiveError, SendError, StreamError,
};

/// The control stream from the agent's end and from the coordinator's; the hello that makes it
/// known is consumed.
async fn control(
    pair: &Pair,
) -> (
    (ControlSender, ControlReceiver),
    (ControlSender, ControlReceiver),
) {
    bounded(async {
        let mut agent = pair.agent.open_control().await.unwrap();
        agent.0.send(&"hello").await.unwrap();
        let mut coordinator = pair.coordinator.accept_control().await.unwrap();
        let hello: Option<String> = coordinator.1.receive().await.unwrap();
        assert_eq!(hello.as_deref(), Some("hello"));
        (agent, coordinator)
    })
    .await
}

/// A raw writer at one end and a receiver of frames at the other.
async fn raw(pair: &Pair) -> (BulkSender, BulkReceiver) {
    bounded(async {
        let (mut writer, _) = pair.coordinator.open_bulk().await.unwrap();
        writer.send(&"raw").await.unwrap();
        let (_, mut receiver) = pair.agent.accept_bulk().await.unwrap();
        assert_eq!(receiver.receive().await.unwrap(), Some("raw".to_owned()));
        (writer, receiver)
    })
    .await
}

fn frame(json: &str) -> Vec<u8> {
    let length = u32::try_from(json.len()).unwrap();
    [&length.to_be_bytes(), json.as_bytes()].concat()
}

#[tokio::test]
async fn messages_arrive_whole_and_in_order_both_ways() {
    let pair = Pair::new().await;
    let (mut agent, mut coordinator) = control(&pair).await;
    bounded(async {
        for n in 0..100u32 {
            agent.0.send(&n).await.unwrap();
            coordinator.0.send(&(n * 2)).await.unwrap();
        }
        for n in 0..100u32 {
            assert_eq!(coordinator.1.receive().await.unwrap(), Some(n));
            assert_eq!(agent.1.receive().await.unwrap(), Some(n * 2));
        }
    })
    .await;
}

#[tokio::test]
async fn the_largest_frame_arrives_and_a_larger_one_is_not_begun() {
    let pair = Pair::new().await;
    let (mut agent, mut coordinator) = control(&pair).await;
    bounded(async {
        let largest = "x".repeat(FRAME_BYTES_MAX - 2);
        let error = agent.0.send(&(largest.clone() + "x")).await.unwrap_err();
        assert!(matches!(error, SendError::TooLarge { bytes } if bytes == FRAME_BYTES_MAX + 1));
        agent.0.send(&largest).await.unwrap();
        assert_eq!(coordinator.1.receive().await.unwrap(), Some(largest));
    })
    .await;
}

#[tokio::test]
async fn an_oversized_frame_is_an_error_that_lasts_and_stops_the_sender() {
    let pair = Pair::new().await;
    let (mut writer, mut receiver) = raw(&pair).await;
    bounded(async {
        let too_large = u32::try_from(FRAME_BYTES_MAX + 1).unwrap();
        writer.write_all(&too_large.to_be_bytes()).await.unwrap();
        for _ in 0..2 {
            let error = receiver.receive::<String>().await.unwrap_err();
            assert_eq!(
                error.to_string(),
                "the peer announces a frame of 65537 bytes, more than the 65536 that a frame may have"
            );
        }
        // The stop needs a moment to arrive; until then messages go nowhere.
        let error = loop {
            match writer.send(&"more").await {
                Ok(()) => tokio::task::yield_now().await,
                Err(error) => break error,
            }
        };
        assert!(matches!(error, SendError::Stopped), "{error}");
    })
    .await;
}

#[tokio::test]
async fn a_frame_that_has_begun_is_not_waited_for_for_ever() {
    let pair = Pair::new().await;
    let (mut writer, mut receiver) = raw(&pair).await;
    bounded(async {
        writer.write_all(&100u32.to_be_bytes()).await.unwrap();
        writer.write_all(b"\"half").await.unwrap();
        for _ in 0..2 {
            let error = receiver.receive::<String>().await.unwrap_err();
            assert_eq!(
                error.to_string(),
                "a frame was not whole within 10 s of its first byte: only 9 bytes of it came"
            );
        }
    })
    .await;
}

#[tokio::test]
async fn garbage_is_shown_and_the_next_frame_is_read() {
    let pair = Pair::new().await;
    let (mut writer, mut receiver) = raw(&pair).await;
    bounded(async {
        let cases = [
            ("{\"a\":", "{\"a\":"),
            ("", ""),
            ("42", "42"),
            ("\u{1b}[2J", "\\u{1b}[2J"),
        ];
        for (json, shown) in cases {
            writer.write_all(&frame(json)).await.unwrap();
            let error = receiver.receive::<String>().await.unwrap_err();
            let ReceiveError::Unreadable { excerpt, .. } = &error else {
                panic!("{json:?}: {error}");
            };
            assert_eq!(excerpt, shown);
        }
        writer
            .write_all(&frame(&"x".repeat(FRAME_BYTES_MAX)))
            .await
            .unwrap();
        let error = receiver.receive::<String>().await.unwrap_err();
        assert!(error.to_string().len() < 300, "{error}");
        writer.send(&"good").await.unwrap();
        assert_eq!(receiver.receive().await.unwrap(), Some("good".to_owned()));
    })
    .await;
}

#[tokio::test]
async fn two_frames_written_at_once_are_two_messages() {
    let pair = Pair::new().await;
    let (mut writer, mut receiver) = raw(&pair).await;
    bounded(async {
        let both = [frame("\"one\""), frame("\"two\"")].concat();
        writer.write_all(&both).await.unwrap();
        assert_eq!(receiver.receive().await.unwrap(), Some("one".to_owned()));
        assert_eq!(receiver.receive().await.unwrap(), Some("two".to_owned()));
    })
    .await;
}

/// A frame byte by byte, and the future of `receive` dropped after each byte.
#[tokio::test]
async fn receive_may_be_dropped_at_any_byte_of_a_slow_frame() {
    let pair = Pair::new().await;
    let (mut writer, mut receiver) = raw(&pair).await;
    bounded(async {
        let bytes = frame("\"slow\"");
        let (last, first) = bytes.split_last().unwrap();
        for (n, byte) in first.iter().enumerate() {
            writer.write_all(&[*byte]).await.unwrap();
            while receiver.frames.filled() < n + 1 {
                tokio::select! {
                    biased;
                    message = receiver.receive::<String>() => panic!("too early: {message:?}"),
                    () = tokio::task::yield_now() => {}
                }
            }
        }
        writer.write_all(&[*last]).await.unwrap();
        writer.send(&"next").await.unwrap();
        assert_eq!(receiver.receive().await.unwrap(), Some("slow".to_owned()));
        assert_eq!(receiver.receive().await.unwrap(), Some("next".to_owned()));
    })
    .await;
}

/// The peer does not read, so a send is stuck with part of its frame gone when it is dropped.
#[tokio::test]
async fn send_may_be_dropped_without_tearing_the_stream() {
    let pair = Pair::new().await;
    let (mut agent, mut coordinator) = control(&pair).await;
    bounded(async {
        let large = |n: usize| format!("{n}{}", "x".repeat(FRAME_BYTES_MAX - 10));
        let mut stuck = 0;
        loop {
            let message = large(stuck);
            let sent = tokio::select! {
                biased;
                result = agent.0.send(&message) => { result.unwrap(); true }
                () = tokio::task::yield_now() => false,
            };
            if !sent {
                break;
            }
            stuck += 1;
        }
        let messages = 0..=stuck;
        tokio::join!(async { agent.0.send(&"after").await.unwrap() }, async {
            for n in messages {
                assert_eq!(coordinator.1.receive().await.unwrap(), Some(large(n)));
            }
            let after: Option<String> = coordinator.1.receive().await.unwrap();
            assert_eq!(after.as_deref(), Some("after"));
        });
    })
    .await;
}

#[tokio::test]
async fn a_finished_stream_ends_and_a_half_frame_does_not_pass_for_an_end() {
    let pair = Pair::new().await;
    let (writer, mut receiver) = raw(&pair).await;
    bounded(async {
        let (finished, ended) = tokio::join!(writer.finish(), receiver.receive::<String>());
        finished.unwrap();
        assert_eq!(ended.unwrap(), None);
        assert_eq!(receiver.receive::<String>().await.unwrap(), None);
    })
    .await;

    for half in [&frame("\"half\"")[..2], &frame("\"half\"")[..7]] {
        let (mut writer, mut receiver) = raw(&pair).await;
        bounded(async {
            writer.write_all(half).await.unwrap();
            writer.shutdown().await.unwrap();
            let error = receiver.receive::<String>().await.unwrap_err();
            assert!(
                matches!(error, ReceiveError::Truncated { bytes } if bytes == half.len()),
                "{error}"
            );
        })
        .await;
    }
}

#[tokio::test]
async fn a_sender_that_is_dropped_does_not_look_finished() {
    let pair = Pair::new().await;
    let (writer, mut receiver) = raw(&pair).await;
    drop(writer);
    let error = bounded(receiver.receive::<String>()).await.unwrap_err();
    assert!(matches!(error, ReceiveError::Abandoned), "{error}");
}

#[tokio::test]
async fn the_end_of_the_connection_is_told_to_every_half() {
    let pair = Pair::new().await;
    let (agent, mut coordinator) = control(&pair).await;
    pair.agent.close("enough");
    let reason = CloseReason::ByPeer {
        reason: "enough".to_owned(),
    };
    bounded(async {
        let error = coordinator.1.receive::<String>().await.unwrap_err();
        assert!(matches!(error, ReceiveError::Lost(r) if r == reason));
        let error = coordinator.0.send(&1).await.unwrap_err();
        assert!(matches!(error, SendError::Lost(r) if r == reason));
        let error = pair.coordinator.open_bulk().await.err().unwrap();
        assert!(matches!(error, StreamError::Lost(r) if r == reason));
    })
    .await;
    drop(agent);
}

#[tokio::test]
async fn the_control_stream_comes_first_and_once() {
    let out_of_turn = |error: Option<StreamError>| matches!(error, Some(StreamError::OutOfTurn));

    let pair = Pair::new().await;
    control(&pair).await;
    assert!(out_of_turn(bounded(pair.agent.open_control()).await.err()));

    let pair = Pair::new().await;
    assert!(out_of_turn(bounded(pair.agent.open_bulk()).await.err()));

    let pair = Pair::new().await;
    let _streams = bounded(async {
        let mut control = pair.agent.open_control().await.unwrap();
        control.0.send(&"hello").await.unwrap();
        control
    })
    .await;
    assert!(out_of_turn(
        bounded(pair.coordinator.accept_bulk()).await.err()
    ));
}

#[tokio::test]
async fn bulk_is_a_question_then_an_answer_and_raw_bytes() {
    let pair = Pair::new().await;
    let content: Vec<u8> = (0..1_000_000u32).map(|n| n.to_le_bytes()[1]).collect();
    let (mut ask, mut answer) = bounded(pair.coordinator.open_bulk()).await.unwrap();
    bounded(async {
        let serve = async {
            let (mut send, mut receive) = pair.agent.accept_bulk().await.unwrap();
            assert_eq!(receive.receive().await.unwrap(), Some("which".to_owned()));
            send.send(&"found").await.unwrap();
            send.write_all(&content).await.unwrap();
            send.finish().await.unwrap();
        };
        let fetch = async {
            ask.send(&"which").await.unwrap();
            assert_eq!(answer.receive().await.unwrap(), Some("found".to_owned()));
            let mut read = Vec::new();
            answer.read_to_end(&mut read).await.unwrap();
            assert!(read == content, "{} bytes arrived", read.len());
        };
        tokio::join!(serve, fetch);
    })
    .await;
}

#[tokio::test]
async fn raw_bytes_are_not_read_from_the_middle_of_a_frame() {
    let pair = Pair::new().await;
    let (mut writer, mut receiver) = raw(&pair).await;
    bounded(async {
        writer.write_all(&frame("\"half\"")[..6]).await.unwrap();
        while receiver.frames.filled() < 6 {
            tokio::select! {
                biased;
                _ = receiver.receive::<String>() => panic!("only half was sent"),
                () = tokio::task::yield_now() => {}
            }
        }
        let error = receiver.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    })
    .await;
}

/// Opens every bulk stream this side may open and writes into each until its window is full,
/// while nobody reads. Reports each stream once, when it is full, and holds them all.
async fn jam(connection: Connection, streams: u32, full: mpsc::UnboundedSender<()>) {
    let mut held = Vec::new();
    for _ in 0..streams {
        held.push(connection.open_bulk().await.unwrap());
    }
    let mut jammed = tokio::task::JoinSet::new();
    for (mut sender, receiver) in held {
        let full = full.clone();
        jammed.spawn(async move {
            let mut written = 0;
            let chunk = vec![0; 64 * 1024];
            std::future::poll_fn(|cx| {
                while let Poll::Ready(result) = Pin::new(&mut sender).poll_write(cx, &chunk) {
                    written += result.unwrap();
                    if written == STREAM_WINDOW_BYTES as usize {
                        full.send(()).unwrap();
                    }
                }
                Poll::<()>::Pending
            })
            .await;
            drop(receiver);
        });
    }
    while jammed.join_next().await.is_some() {}
}

/// Every bulk stream of both sides is full and unread: more cannot be under way.
#[tokio::test]
async fn control_flows_while_every_bulk_stream_is_jammed() {
    let pair = Pair::new().await;
    let (mut agent, mut coordinator) = control(&pair).await;
    let (full, mut filled) = mpsc::unbounded_channel();
    let mut jams = tokio::task::JoinSet::new();
    let (agents, coordinators) = (BULK_STREAMS_TO_LISTENER_MAX, BULK_STREAMS_TO_DIALER_MAX);
    jams.spawn(jam(pair.agent.clone(), agents, full.clone()));
    jams.spawn(jam(pair.coordinator.clone(), coordinators, full));
    bounded(async {
        for _ in 0..agents + coordinators {
            filled.recv().await.unwrap();
        }
        let large = "x".repeat(FRAME_BYTES_MAX - 2);
        for _ in 0..20 {
            agent.0.send(&large).await.unwrap();
            let seen: String = coordinator.1.receive().await.unwrap().unwrap();
            coordinator.0.send(&seen).await.unwrap();
            assert_eq!(agent.1.receive().await.unwrap(), Some(large.clone()));
        }
    })
    .await;
    assert!(jams.try_join_next().is_none(), "the jam has not dissolved");
}

#[tokio::test]
async fn control_goes_before_bulk_at_both_ends() {
    let pair = Pair::new().await;
    let (agent, coordinator) = control(&pair).await;
    let (mut asks, _answer) = bounded(pair.coordinator.open_bulk()).await.unwrap();
    bounded(asks.send(&"ask")).await.unwrap();
    let (answers, _question) = bounded(pair.agent.accept_bulk()).await.unwrap();
    for bulk in [asks.frames.priority(), answers.frames.priority()] {
        for control in [agent.0.frames.priority(), coordinator.0.frames.priority()] {
            assert!(control > bulk);
        }
    }
}

#[tokio::test]
async fn no_more_than_a_few_bulk_streams_are_open_at_a_time() {
    let pair = Pair::new().await;
    bounded(async {
        let mut open = Vec::new();
        for _ in 0..BULK_STREAMS_TO_DIALER_MAX {
            open.push(pair.coordinator.open_bulk().await.unwrap());
        }
        tokio::select! {
            biased;
            _ = pair.coordinator.open_bulk() => panic!("one more than may be"),
            () = tokio::task::yield_now() => {}
        }
        // A few end, both halves on both sides: there is room for another. The word that there is
        // comes for an eighth of them at once.
        for (mut send, receive) in open.drain(..(BULK_STREAMS_TO_DIALER_MAX / 8 + 1) as usize) {
            send.send(&"only this").await.unwrap();
            let (other_send, other_receive) = pair.agent.accept_bulk().await.unwrap();
            drop((send, receive, other_send, other_receive));
        }
        pair.coordinator.open_bulk().await.unwrap();
    })
    .await;
}
